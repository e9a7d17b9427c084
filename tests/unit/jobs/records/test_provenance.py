"""What a run is trained by is what its inputs and git say, and nothing that they don't."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobs.records.history import provenance, revision


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPWAY_PROJECT", str(tmp_path))
    return tmp_path


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def inputs(**declared: Any) -> dict[str, Any]:
    return {"job": declared, "image": "example.org/mine@sha256:1"}


def test_a_clean_commit_is_the_revision_and_a_change_makes_it_dirty(repository: Path) -> None:
    git(repository, "init", "--quiet")
    (repository / "train.py").write_text("1\n")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "one")
    commit = git(repository, "rev-parse", "HEAD")
    assert revision(repository) == commit
    for changed in ("train.py", "in_no_commit.py"):
        git(repository, "checkout", "--quiet", ".")
        (repository / changed).write_text("2\n")
        assert revision(repository) == f"{commit}-dirty"


def test_no_commit_is_no_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert revision(repository) is None
    git(repository, "init", "--quiet")
    assert revision(repository) is None
    monkeypatch.setenv("PATH", "")
    assert "revision" not in provenance(inputs())


@pytest.mark.usefixtures("repository")
def test_image_data_and_settings_are_those_of_the_inputs() -> None:
    """A script's content is known by its ConfigMap."""
    data = {"url": "https://example.org/d.tar", "sha256": "ab"}
    assert provenance(inputs(data=data, epochs=2)) == {
        "image": "example.org/mine@sha256:1",
        "data": data,
        "settings": {"data": data, "epochs": 2},
    }
    assert "data" not in provenance(inputs(epochs=2))
    assert provenance({**inputs(), "script": {"name": "mine-ab12"}})["files"] == ["mine-ab12"]


def test_the_revision_of_a_script_is_that_of_its_own_directory(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    git(repository, "init", "--quiet")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "of the checkout")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    script = elsewhere / "train.py"
    script.write_text("1\n")
    assert "revision" not in provenance(inputs(script=str(script)))
    git(elsewhere, "init", "--quiet")
    git(elsewhere, "add", ".")
    git(elsewhere, "commit", "--quiet", "--message", "of the script")
    commit = git(elsewhere, "rev-parse", "HEAD")
    assert provenance(inputs(script=str(script)))["revision"] == commit
    assert provenance(inputs(script=str(elsewhere)))["revision"] == commit
