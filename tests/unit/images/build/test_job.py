"""A job's own image: what it is built from, and what is wrong with it before anything is built."""

import os
from pathlib import Path

import pytest

from images.build.engines import DOCKER, Engine, Plan
from images.build.job import JobImageSpec
from images.build.runner import Runner
from slipway_trainer.agent.artifacts import time_limit
from tests.unit.images.objects import Holding, Listener

_FROM_TRAINER = "# mine\nARG TRAINER\nFROM ${TRAINER}\nCOPY train.py /\n"


def _spec(folder: Path, dockerfile: str, trainer: str | None = None) -> JobImageSpec:
    (folder / "Dockerfile").write_text(dockerfile)
    return JobImageSpec("mine", folder, "Dockerfile", trainer)


def test_a_dockerfile_asks_for_the_trainers_image_with_an_argument(tmp_path: Path) -> None:
    assert _spec(tmp_path, _FROM_TRAINER).wants_trainer
    assert _spec(tmp_path, "arg TRAINER=debian:12\nFROM $TRAINER\n").wants_trainer
    spec = _spec(tmp_path, "# ARG TRAINER\nFROM debian:12\n")
    assert not spec.wants_trainer
    (tmp_path / "Dockerfile").write_bytes("# für mich\nFROM debian:12\n".encode("latin-1"))
    assert not spec.wants_trainer, "a comment may be in any encoding"


def test_the_name_has_the_files_the_dockerfile_and_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "Other").write_text(_FROM_TRAINER)
    specs = [
        _spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1"),
        _spec(tmp_path, _FROM_TRAINER, "localhost/trainer:2"),
        JobImageSpec("mine", tmp_path, "Other", "localhost/trainer:2"),
    ]
    names = [spec.reference for spec in specs]
    (tmp_path / "train.py").touch()
    names.append(_spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference)
    assert len(set(names)) == 4
    assert all(name.startswith("localhost/slipway-job-mine:") for name in names)


def test_a_pipe_among_the_files_is_not_read(tmp_path: Path) -> None:
    before = _spec(tmp_path, _FROM_TRAINER).content_hash
    os.mkfifo(tmp_path / "pipe")
    with time_limit(20, "reading a pipe"):
        assert before != _spec(tmp_path, _FROM_TRAINER).content_hash


@pytest.mark.parametrize("line", ["ARG HTTPS_PROXY", "ENV a=b https_proxy=$x", "arg http_proxy=1"])
def test_a_dockerfile_that_would_keep_a_proxys_password_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A declared argument is in the image's history; without a password there is no harm."""
    spec = _spec(tmp_path, f"FROM scratch\n{line}\n")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert spec.problems() == {}
    monkeypatch.setenv("https_proxy", "http://me:pw@proxy:3128")
    assert "this shell's proxy password" in spec.problems()["dockerfile"]
    (tmp_path / "Dockerfile").write_text("FROM scratch\n# ARG https_proxy\nENV reverse_proxy_=1\n")
    assert spec.problems() == {}


def test_a_dockerfile_outside_of_the_context_is_refused(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (tmp_path / "Dockerfile").touch()
    assert "outside" in JobImageSpec("mine", context, "../Dockerfile").problems()["dockerfile"]


def test_the_trainers_image_is_a_build_argument(tmp_path: Path) -> None:
    spec = _spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1")
    plan = spec.prepare(Holding(), Runner(tmp_path / "log", Listener()), tmp_path)
    assert plan.arguments == ("TRAINER=localhost/trainer:1",)
    assert (plan.context, plan.dockerfile) == (tmp_path, tmp_path / "Dockerfile")


@pytest.mark.parametrize("engine", [DOCKER, Engine("buildah", ("/b",))])
def test_the_build_command_has_the_dockerfile_and_ends_with_the_context(engine: Engine) -> None:
    plan = Plan(Path("/context"), Path("/context/docker/File"), ("A=b",))
    command = engine.build(plan, "image:1")
    assert command[command.index("--file") + 1] == "/context/docker/File"
    assert command[command.index("--build-arg") + 1] == "A=b"
    assert command[-1] == "/context"
