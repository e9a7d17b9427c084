"""A folder with nothing but stacks' files is a project of its own; a checkout stays `slipway`."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from clusters.kinds import default_name
from core.paths import CHECKOUT, of_project, project_name
from jobs.records import archive
from scripts import installed
from scripts.cli import project
from scripts.cli.backend import lock_directory, state_file
from scripts.environment import exports, shell


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, which is the project's."""
    place = tmp_path / "a" / "My training!"
    place.mkdir(parents=True)
    monkeypatch.setenv("SLIPWAY_PROJECT", str(place))
    return place


def test_a_checkout_is_the_project_that_it_has_always_been(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for an installed command in a shell that has evaluated another folder's exports."""
    monkeypatch.setenv("SLIPWAY_PROJECT", "/another/folder")
    monkeypatch.setattr(sys, "argv", ["slipway", "--help"])
    monkeypatch.chdir(CHECKOUT)
    with pytest.raises(SystemExit, match="0"):
        installed.main()
    assert project_name() == yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["name"]
    assert project.directory() == CHECKOUT
    assert project.arguments() == project.arguments(CHECKOUT) == []
    assert of_project("dev") == default_name("embedded", {}, "dev") == "dev"
    assert "SLIPWAY_PROJECT" not in exports({})
    assert "unset SLIPWAY_PROJECT" in shell({}).splitlines()


def test_pulumis_project_of_a_folder_leads_to_its_files_and_to_this_program(folder: Path) -> None:
    place = project.directory()
    document = json.loads((place / "Pulumi.yaml").read_text())
    assert document["name"] == project_name() == f"my-training-{project_name()[-6:]}"
    assert (place / document["stackConfigDir"]).resolve() == folder.resolve()
    starters = [Path(each["path"]) for each in document["plugins"]["providers"]]
    assert [each for each in starters if not each.is_relative_to(CHECKOUT)] == []
    assert all(each.is_dir() for each in starters)
    assert str(CHECKOUT) in (place / "__main__.py").read_text()
    assert [*folder.iterdir()] == []
    assert project.arguments() == project.arguments(folder) == ["--cwd", str(place)]
    assert project.arguments(folder.parent) == []
    assert exports({})["SLIPWAY_PROJECT"] == str(folder.resolve())


def test_folders_of_one_name_share_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their stacks may both be called dev: each has its own state, locks, logs and cluster."""

    def of_dev() -> set[str]:
        cluster = default_name("embedded", {"kind": "embedded"}, "dev")
        places = (state_file("dev"), lock_directory("dev"), archive.of_stack("dev"))
        return {cluster, of_project("dev"), *map(str, places), str(project.directory())}

    first = of_dev()
    other = folder.parents[1] / "b" / folder.name
    other.mkdir(parents=True)
    monkeypatch.setenv("SLIPWAY_PROJECT", str(other))
    assert not first & of_dev()
    monkeypatch.setenv("SLIPWAY_PROJECT", str(CHECKOUT))
    assert not first & of_dev()
