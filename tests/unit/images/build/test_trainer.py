"""An image's name stands for all that goes into it, and which version of torch a job gets."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.azure.facts import GPUS, LOCAL_GPUS, cards
from images.build.releases import RELEASES, Card, Release, usable
from images.build.trainer import (
    TRAINER,
    TRAINER_CIFAR,
    TRAINER_CUDA,
    ImageSpec,
    _make_readable,
    trainer,
    trainer_of,
)
from images.datasets.dataset import Source
from tests.unit.images.objects import REAL, Listener, dataset, unreachable


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "context"
    (folder / "code").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "code" / "train.py").write_text("print()\n")
    (folder / "latest").symlink_to("code/train.py")
    return folder


def _hash(context: Path) -> str:
    return ImageSpec("image", context).content_hash


@pytest.mark.parametrize(
    ("is_content", "change"),
    [
        (True, "echo 'print(1)' > code/train.py"),
        (True, "mv code/train.py code/main.py"),
        (True, "chmod 755 code/train.py"),
        (True, "ln -sf Dockerfile latest"),
        (False, "mkdir .git; echo main > .git/HEAD"),
        (False, "mkdir code/__pycache__; touch code/__pycache__/train.cpython-311.pyc"),
        (False, "touch --date=@0 Dockerfile"),
        (False, "chmod 600 code/train.py"),
    ],
)
def test_every_change_of_content_changes_the_hash(
    is_content: bool, change: str, context: Path
) -> None:
    """Git's and Python's files, times and the umask do not."""
    before = _hash(context)
    subprocess.run(["sh", "-c", change], cwd=context, check=True)
    assert (_hash(context) != before) == is_content


def test_the_name_is_open_until_it_is_known_which_data_set_is_in_it(context: Path) -> None:
    assert ImageSpec("image", context, {"data": replace(REAL, stand_in=None)}).is_settled
    spec = ImageSpec("image", context, {"data": REAL})
    assert not spec.is_settled
    with pytest.raises(RuntimeError, match="data set data has not been fetched"):
        _ = spec.reference
    asked = spec.content_hash
    spec.settle(Listener())
    with_stand_in = spec.reference
    assert with_stand_in.startswith("localhost/image:")
    assert spec.content_hash == asked
    REAL.directory.mkdir(parents=True)
    assert spec.reference != with_stand_in
    gone = dataset("gone", b"gone", Source("a package", unreachable))
    ImageSpec("image", context, {"data": replace(REAL, stand_in=gone)}).settle(Listener())


def test_of_two_images_out_of_one_directory_each_has_its_own_files(context: Path) -> None:
    def hashes() -> tuple[str, str]:
        cuda = ImageSpec("cuda", context, {}, "Dockerfile.cuda")
        return _hash(context), cuda.content_hash

    (context / "Dockerfile.cuda").write_text("FROM scratch\n")
    (context / "requirements.cuda.lock").touch()
    before = hashes()
    (context / "Dockerfile.cuda").write_text("FROM scratch\nUSER 1\n")
    after = hashes()
    assert after[0] == before[0] != after[1] != before[1]
    (context / "Dockerfile").write_text("FROM scratch\nUSER 1\n")
    last = hashes()
    assert last[0] != after[0]
    assert last[1] == after[1]
    (context / "requirements.lock").write_text("a==1\n")
    assert all(each not in last for each in hashes()), "both have it"


def test_what_a_narrow_umask_made_is_readable_by_the_images_user(tmp_path: Path) -> None:
    folder, tool = tmp_path / "site-packages", tmp_path / "site-packages/tool"
    folder.mkdir(mode=0o700)
    tool.touch(mode=0o700)
    (folder / "module.py").touch(mode=0o600)
    (folder / "gone").symlink_to("nothing")
    _make_readable(tmp_path)
    modes = [each.stat().st_mode & 0o777 for each in (folder, tool, folder / "module.py")]
    assert modes == [0o755, 0o755, 0o644]


def test_the_newest_that_can_be_had_is_the_default() -> None:
    assert (TRAINER.torch, TRAINER_CIFAR.torch, TRAINER_CUDA.torch) == ("2.14", "2.14", "2.15")
    assert trainer("2.14", cifar=True) is TRAINER_CIFAR
    assert trainer("2.15", gpus=True) is TRAINER_CUDA


def test_another_version_is_another_image_which_is_known_by_its_name() -> None:
    other = trainer("2.6")
    assert other.name == "slipway-trainer-2.6"
    assert other.content_hash != TRAINER.content_hash
    for name, known in (
        (f"localhost/{other.name}:1", other),
        ("localhost/slipway-trainer-cuda-2.10:1", trainer("2.10", gpus=True)),
        ("localhost/slipway-trainer-cifar:1", TRAINER_CIFAR),
        ("localhost/slipway-trainer:2", TRAINER),
        ("example.org/slipway-trainer:2", None),
    ):
        assert trainer_of(name) == known


@pytest.mark.parametrize(
    ("cards", "wanted"),
    [
        ([Card("sm_120")], ["2.15", "2.14", "2.10"]),
        ([Card("sm_70")], ["2.10", "2.6"]),
        ([Card("sm_120"), Card("sm_70")], ["2.10"]),
        ([Card("sm_86", cuda=12)], ["2.10", "2.6"]),
        ([Card("sm_89")], ["2.15", "2.14", "2.10", "2.6"]),  # by the kernels for sm_86 and sm_80
        ([Card("sm_37")], []),
        (None, ["2.14", "2.6"]),
    ],
    ids=str,
)
def test_gpus_take_versions_and_cuda_that_fit_them_and_cpus_theirs(
    cards: list[Card] | None, wanted: list[str]
) -> None:
    assert [each.torch for each in usable(cards)] == wanted


def test_why_a_version_is_for_gpus_or_for_cpus_alone() -> None:
    assert RELEASES["2.15"].unfit(None) == "is available for GPUs only"
    packaged = Release("1.0", "trixie", debian={"torch": "1.0.0"})
    assert packaged.unfit(()) == "is available for CPUs only"


@pytest.mark.parametrize("size", [*GPUS, *LOCAL_GPUS])
def test_of_each_size_the_gpu_is_known_and_a_version_runs_on_it(size: str) -> None:
    assert len(cards(size)) == 1
    assert next(usable(cards(size)), None) is not None
