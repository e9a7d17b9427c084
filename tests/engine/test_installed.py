"""The command as a package: of the wheel, in a folder of the user's that has nothing else."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from core.process import run
from tests.engine.awaiting import COMMAND_SECONDS
from tests.engine.stack import UP_SECONDS


@dataclass(frozen=True)
class Installed:
    """A user's environment with the command, and what it had before."""

    directory: Path
    before: frozenset[str]

    @property
    def packages(self) -> Path:
        """Where its packages are."""
        return next(self.directory.glob("venv/lib/python*/site-packages"))

    def run(
        self, folder: Path, *words: str, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run `slipway` in a folder, without a terminal, whatever its exit status."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLIPWAY_", "PULUMI_"))}
        environment = {**kept, "XDG_STATE_HOME": str(self.directory / "state"), **variables}
        return subprocess.run(
            [self.directory / "venv/bin/slipway", *words],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=UP_SECONDS, check=False,
        )  # fmt: skip

    def succeed(self, folder: Path, *words: str, **variables: str) -> str:
        """Run `slipway`, which has to succeed, and return what it said."""
        finished = self.run(folder, *words, **variables)
        said = finished.stdout + finished.stderr
        assert finished.returncode == 0, said
        return said

    def files(self) -> dict[Path, int]:
        """Return the package's files, each with when it was written."""
        found = (self.packages / "slipway_command").rglob("*")
        return {each: each.stat().st_mtime_ns for each in found if each.is_file()}


@pytest.fixture(scope="module")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The command, installed from the wheel that `make wheel` builds."""
    place = tmp_path_factory.mktemp("installed")
    pip, limit = ("-m", "pip", "--quiet", "--disable-pip-version-check"), COMMAND_SECONDS
    build = ("wheel", "--no-deps", f"--wheel-dir={place}", str(root))
    run(f"{root}/.venv/bin/python", *pip, *build, limit=limit)
    run(sys.executable, "-m", "venv", f"{place}/venv", limit=limit)
    before = frozenset(each.name for each in next(place.glob("venv/lib/*/site-packages")).iterdir())
    wheels = map(str, place.glob("slipway_training-*.whl"))
    run(f"{place}/venv/bin/python", *pip, "install", *wheels, limit=limit)
    return Installed(place, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules of the user's, which are called like ours and none of ours."""
    place = tmp_path / "mine"
    for name in ("core", "jobs", "scripts"):
        (place / name).mkdir(parents=True)
        (place / name / "__init__.py").write_text("raise SystemExit('not ours')")
    return place


def test_an_environment_gets_two_packages_and_help_and_errors_need_no_other(
    installed: Installed, folder: Path, tmp_path: Path
) -> None:
    new = {each.name for each in installed.packages.iterdir()} - installed.before
    assert {name for name in new if not name.endswith(".dist-info")} == {"click", "slipway_command"}
    cache = tmp_path / "cache"
    helped = installed.run(folder, "--help", XDG_CACHE_HOME=str(cache))
    assert helped.returncode == 0, helped.stderr
    assert {"up", "down", "init"} <= {*helped.stdout.split()}
    wrong = installed.run(folder, "ui", "--port", "x", XDG_CACHE_HOME=str(cache))
    assert (wrong.returncode, "'--port'" in wrong.stderr) == (2, True)
    assert not cache.exists()


def test_a_folder_gets_a_stack_that_can_be_previewed_and_nothing_else_is_written(
    installed: Installed, folder: Path
) -> None:
    before, files = installed.files(), {*folder.rglob("*")}
    installed.succeed(folder, "init", "--ranks", "3")
    file = folder / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["slipway:jobs"]["lm-fsdp"] = {}  # whose script is the package's
    file.write_text(yaml.safe_dump(document))
    shown = installed.succeed(folder, "preview")
    for resource in ("clusters:Embedded mine-", "jobs:PyTorchJob train", "jobs:PyTorchJob lm-fsdp"):
        assert f"slipway:{resource}" in shown
    assert {*folder.rglob("*")} - files == {file, folder / "train.py"}
    assert installed.files() == before


def test_a_script_runs_in_its_users_own_environment(installed: Installed, folder: Path) -> None:
    """Its path is theirs, and holds nothing of the command up."""
    (folder / "src").mkdir()
    for name in ("helpers", "yaml"):
        (folder / "src" / f"{name}.py").write_text("NUMBER = 7")
    (folder / "one.py").write_text("import helpers, slipway\nslipway.finish(n=helpers.NUMBER)")
    words = ("run", "one.py", "--workers", "0", "--python", sys.executable)
    said = installed.succeed(folder, *words, PYTHONPATH=str(folder / "src"))
    assert "job one: Succeeded in" in said
    assert "n 7" in said


def test_errors_name_the_installed_command(installed: Installed, folder: Path) -> None:
    missing = installed.run(folder, "up")
    assert missing.returncode == 1
    assert "There is no stack 'dev'. Stacks: none." in missing.stderr
    assert "slipway init --stack dev" in missing.stderr
    installed.succeed(folder, "init")
    untrained = installed.run(folder, "results")
    assert "`slipway up --stack dev` creates the stack" in untrained.stderr


def test_in_a_checkout_it_is_the_checkouts_own(installed: Installed, root: Path) -> None:
    """Its project stays `slipway`: `make up` and `slipway up` are about the same stack."""
    exports = installed.run(root, "env", SLIPWAY_PROJECT="/elsewhere").stdout.splitlines()
    assert [line for line in exports if "SLIPWAY_PROJECT" in line] == ["unset SLIPWAY_PROJECT"]
    assert any(line.startswith(f"export PATH={root}/scripts/bin:") for line in exports)


@pytest.mark.long
def test_the_stacks_of_two_folders_live_and_end_apart(installed: Installed, tmp_path: Path) -> None:
    """Both are called dev, and are on the same machine."""
    one, two = tmp_path / "one" / "mine", tmp_path / "two" / "mine"
    for place in (one, two):
        place.mkdir(parents=True)
    try:
        installed.succeed(one, "init")
        installed.succeed(two, "init", "--ranks", "1")
        assert "train Succeeded" in installed.succeed(one, "up")
        assert "train Succeeded" in installed.succeed(two, "up")
        assert "Removed dev completely" in installed.succeed(one, "down")
        assert "train Succeeded" in installed.succeed(two, "results")
        # What the checks find of a cluster is their own affair; here they have to run.
        assert re.search(r"\b\d\d passed", installed.run(two, "smoke").stdout)
    finally:
        ended = [installed.run(place, "down").stderr for place in (one, two)]
    assert all("Removed dev completely" in each for each in ended), ended
