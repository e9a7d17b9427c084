"""A job's own image, or its packages: what is built, and what is wrong with it beforehand."""

import os
from pathlib import Path

import pytest

from images.build.engines import Engine
from images.build.job import DOCKERFILE, JobImageSpec, RequirementsSpec
from images.build.runner import BuildFailed, Runner
from images.build.trainer import TRAINER_CIFAR
from slipway_trainer.agent.artifacts import time_limit
from tests.unit.images.objects import Listener

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
    """Of a pipe the name counts, which is never read."""
    (tmp_path / "Other").write_text(_FROM_TRAINER)
    names = {
        _spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference,
        _spec(tmp_path, _FROM_TRAINER, "localhost/trainer:2").reference,
        JobImageSpec("mine", tmp_path, "Other", "localhost/trainer:2").reference,
    }
    (tmp_path / "train.py").touch()
    names.add(_spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference)
    os.mkfifo(tmp_path / "pipe")
    with time_limit(20, "reading a pipe"):
        names.add(_spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference)
    (tmp_path / "train.py").chmod(0o600)  # the job's user can't read it
    names.add(_spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference)
    (tmp_path / os.fsdecode(b"caf\xe9")).symlink_to(os.fsdecode(b"\xe9"))  # not UTF-8
    names.add(_spec(tmp_path, _FROM_TRAINER, "localhost/trainer:1").reference)
    assert len(names) == 7
    assert all(name.startswith("localhost/slipway-job-mine:") for name in names)


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


_TRAINER = "localhost/slipway-other:1"


def packages(folder: Path, text: str, **others: str) -> RequirementsSpec:
    (folder / "needs.txt").write_text(text)
    return RequirementsSpec.from_file(folder / "needs.txt", **{"trainer": _TRAINER, **others})


def test_the_name_changes_with_the_list_and_the_trainers_image_alone(tmp_path: Path) -> None:
    """Whatever the file is called; over each of the trainer's images it is another resource."""
    one = packages(tmp_path, "einops==0.8.1\n")
    assert one.reference.startswith("localhost/slipway-packages:")
    assert packages(tmp_path, "einops==0.8.0\n").reference != one.reference
    over_another = packages(tmp_path, "einops==0.8.1\n", trainer="localhost/slipway-other:2")
    assert over_another.reference != one.reference
    (tmp_path / "others.txt").write_text("einops==0.8.1\n")
    other = RequirementsSpec.from_file(tmp_path / "others.txt", trainer=_TRAINER)
    assert (other.name, other.archive) == (one.name, one.archive)
    cifar = RequirementsSpec.from_file(tmp_path / "others.txt", TRAINER_CIFAR.name)
    assert cifar.name != one.name


def test_the_build_has_the_list_and_nothing_else_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hidden")
    (work := tmp_path / "work").mkdir()
    wanted = packages(tmp_path, "einops\n")
    assert JobImageSpec.from_inputs(wanted.inputs) == wanted
    plan = wanted.prepare(Engine("docker", ()), Runner(tmp_path / "log", Listener()), work)
    assert [path.read_text() for path in plan.context.iterdir()] == ["einops\n"]
    assert plan.dockerfile == DOCKERFILE
    assert plan.arguments == (f"TRAINER={_TRAINER}", f"CONTENT={wanted.content_hash}")


def test_the_file_is_named_and_no_address_in_it(tmp_path: Path) -> None:
    """In a preview, and where it can't be read."""
    origin = packages(tmp_path, "--index-url https://user:secret@index.example\neinops\n").origin
    assert origin == f"the trainer's image and the packages in {tmp_path}/needs.txt"
    found = RequirementsSpec.from_file(tmp_path / "nowhere.txt").problems()
    assert [*found] == ["requirements"]
    assert f"{tmp_path}/nowhere.txt can't be read: No such file" in found["requirements"]


_BASE = "slipway-trainer"
_ANOTHER = "refers to another file"


@pytest.mark.parametrize(
    ("base", "line", "reason"),
    [
        (_BASE, "torch==2.6.0", 'torch 2.14.1: set the job\'s `torch: "2.6"`, or remove this line'),
        (_BASE, "Torch ~= 2.6.0  # ours", '`torch: "2.6"`'),
        (_BASE, "torch==2.6.0+cu124", "torch 2.14.1: remove this line"),
        (_BASE, "torchvision==0.21.0 --hash=sha256:0", '`torch: "2.6"`'),
        (f"{_BASE}-cuda", "torch==2.10.0", 'torch 2.15.0: set the job\'s `torch: "2.10"`'),
        (_BASE, "-r more.txt", _ANOTHER),
        (_BASE, "-e .", _ANOTHER),
        (_BASE, "--requirement=more.txt", _ANOTHER),
        (_BASE, "../mine.whl", _ANOTHER),
        (_BASE, "mine @ file:///a.whl", _ANOTHER),
        *((_BASE, line, _ANOTHER) for line in (".", ".[train]", "libs/mine", "~/mine", "mine.whl")),
        *(
            (_BASE, line, _ANOTHER)
            for line in ("mine[x] @ ./mine", "-f wheels", "--find-links=./w")
        ),
    ],
)
def test_another_torch_and_another_file_are_refused_by_their_lines(
    tmp_path: Path, base: str, line: str, reason: str
) -> None:
    found = packages(tmp_path, f"einops\n{line}\n\n{line}\n", base=base).problems()["requirements"]
    assert "line 2 of" in found
    assert "line 4 of" in found, "all are reported together"
    assert reason in found


@pytest.mark.parametrize(
    ("base", "text"),
    [
        (_BASE, ""),
        (_BASE, "a==1 \\\n  --hash=sha256:0\n# -r x\nmine @ https://a.example/b.whl"),
        (_BASE, "git+https://a.example/b@c/d\nb @ git+https://a.example/b@c/d\n${URL}/b.whl"),
        (
            _BASE,
            "-f https://a.example/b\n--find-links=https://a.example\nb>=1; extra == 'a/b' # c/d",
        ),
        (_BASE, "https://a.example/b.whl\nb.zipper"),
        (_BASE, "torch\ntorchvision>=0.20 # any\ntorchmetrics==1.0.0"),
        (_BASE, "torch==2.6.0; python_version<'3.14'\ntorch @ https://index.example/torch.whl"),
        (f"{_BASE}-cifar", "torch[opt-einsum]~=2.14"),
        (f"{_BASE}-cuda", "torch==2.15.*"),
        (f"{_BASE}-2.6", "torch==2.6.0"),
    ],
)
def test_packages_and_the_images_own_torch_are_allowed(
    tmp_path: Path, base: str, text: str
) -> None:
    assert packages(tmp_path, f"{text}\n", base=base).problems() == {}


def test_a_failed_build_reports_pips_reason_the_file_and_a_remedy(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "ERROR: Could not find a version that satisfies the requirement einops (from versions: "
        "none)\nERROR: No matching distribution found for einops\n"
    )
    told = str(packages(tmp_path, "einops\n").explained(BuildFailed("the end of its log"), log))
    first = told.splitlines()[0]
    assert first.startswith(f"the packages in {tmp_path}/needs.txt can't be installed: the index")
    assert "does not offer einops" in first
    assert all(each in told for each in ("make up", "`torch`", "the end of its log"))
