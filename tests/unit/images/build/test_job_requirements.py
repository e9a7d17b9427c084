"""A script's packages: what is built from their list, and what is wrong with it beforehand."""

import sys
from pathlib import Path

import pytest

from images.build.engines import Command, Engine
from images.build.job import DOCKERFILE, JobImageSpec, RequirementsSpec
from images.build.runner import BuildFailed, Runner
from tests.unit.images.objects import Listener

_TRAINER = "localhost/slipway-other:1"


def spec(folder: Path, text: str, trainer: str | None = _TRAINER) -> RequirementsSpec:
    (folder / "needs.txt").write_text(text)
    return RequirementsSpec.from_file("mine", folder / "needs.txt", trainer)


def test_the_name_changes_with_the_list_and_the_trainers_image_alone(tmp_path: Path) -> None:
    names = {
        spec(tmp_path, "einops==0.8.1\n").reference,
        spec(tmp_path, "einops==0.8.0\n").reference,
        spec(tmp_path, "einops==0.8.1\n", "localhost/slipway-other:2").reference,
    }
    assert len(names) == 3
    (tmp_path / "train.py").touch()
    assert spec(tmp_path, "einops==0.8.1\n").reference in names
    assert all(name.startswith("localhost/slipway-job-mine:") for name in names)


def test_a_resources_inputs_are_enough_to_build_it(tmp_path: Path) -> None:
    wanted = spec(tmp_path, "einops\n")
    assert JobImageSpec.from_inputs(wanted.inputs) == wanted
    assert wanted.wants_trainer


class Holding(Engine):
    """An engine that has every image."""

    def digest(self, reference: str) -> Command:
        return (sys.executable, "-c", f"print({reference!r})")


def test_the_build_has_the_list_and_nothing_else_of_its_folder(tmp_path: Path) -> None:
    folder, work = tmp_path / "own", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    (folder / "token").write_text("hidden")
    runner = Runner(tmp_path / "log", Listener())
    wanted = spec(folder, "einops\n")
    plan = wanted.prepare(Holding("docker", ()), runner, work)
    assert [path.read_text() for path in plan.context.iterdir()] == ["einops\n"]
    assert plan.dockerfile == DOCKERFILE
    assert plan.arguments == (f"TRAINER={_TRAINER}", f"CONTENT={wanted.content_hash}")


def test_a_preview_names_the_file_and_no_address_in_it(tmp_path: Path) -> None:
    origin = spec(tmp_path, "--index-url https://user:secret@index.example\neinops\n").origin
    assert origin == f"the trainer's image and the packages of {tmp_path}/needs.txt"


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = RequirementsSpec.from_file("mine", tmp_path / "nowhere.txt").problems()
    assert [*found] == ["requirements"]
    assert f"{tmp_path}/nowhere.txt can't be read: No such file" in found["requirements"]


@pytest.mark.parametrize(
    "line",
    [
        *("-r more.txt", "-c pins.txt", "-e .", "--requirement=more.txt", "./mine", "../mine.whl"),
        *("/srv/mine.whl", "mine @ file:///srv/mine.whl", "file:mine.whl"),
    ],
)
def test_another_file_is_refused_by_its_line(tmp_path: Path, line: str) -> None:
    found = spec(tmp_path, f"einops\n{line}\n").problems()
    assert "line 2 of" in found["requirements"]
    assert "names another file" in found["requirements"]


@pytest.mark.parametrize(
    "text", ["", "einops", "a==1 \\\n  --hash=sha256:0", "mine @ https://a.example/b.whl", "# -r x"]
)
def test_packages_are_allowed(tmp_path: Path, text: str) -> None:
    assert spec(tmp_path, text).problems() == {}


def test_a_failed_build_is_told_with_the_file_and_what_to_do(tmp_path: Path) -> None:
    told = str(spec(tmp_path, "einops\n").explained(BuildFailed("No matching distribution")))
    for expected in (f"{tmp_path}/needs.txt", "make up", "`build`", "No matching distribution"):
        assert expected in told
