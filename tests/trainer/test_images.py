"""ResNets on folders of pictures and on shards, in the image's own Python."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, Rank

_PROGRAM = ("-m", "slipway_trainer.images")
# 33 pictures over two ranks of 8: the last global batch is one, so rank 1 has none of it.
_ARGS = ("--size", "32", "--batch-size", "8", "--epochs", "2", "--log-interval", "1",
         "--precision", "float32", "--timeout", "2")  # fmt: skip
_DRAW = """
import random
from pathlib import Path
from PIL import Image
random.seed(1)
for folder, count in (("training", 33), ("testing", 20)):
    for number in range(count):
        kind, low = ("dark", 0) if number % 2 else ("light", 160)
        place = Path("/out/pictures", folder, kind)
        place.mkdir(parents=True, exist_ok=True)
        color = tuple(random.randrange(low, low + 90) for _ in range(3))
        suffix = "png" if number % 3 else "jpg"
        Image.new("RGB", (40, 36), color).save(place / f"{number}.{suffix}")
Path("/out/pictures/DATASET").write_text('{"name": "shades"}')
"""
_COMPARE = """
from pathlib import Path
import torch
from slipway_trainer.data.pictures import Pictures
for train in (True, False):
    how = {"train": train, "limit": None, "size": 32, "device": torch.device("cpu")}
    files, shards = (Pictures(Path(path), **how) for path in ("/files", "/shards"))
    every = torch.arange(len(files))
    assert all(torch.equal(*both) for both in zip(files[every], shards[every], strict=True))
    assert files.classes == shards.classes == ("dark", "light")
    print(len(shards))
"""
"""Pictures and labels are the same in the same order."""


@pytest.fixture(scope="module")
def data(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with folders of pictures."""
    directory = tmp_path_factory.mktemp("data")
    directory.chmod(0o777)
    image.run("python3", "-c", _DRAW, mounts={directory: "/out"})
    return directory


def trained(image: Opened, directory: Path, data: Path, *more: str) -> list[Ended]:
    ranks = [Rank(program=_PROGRAM)] * 2
    args = ("--data", "/pictures", *_ARGS, *more)
    return image.train(directory, *ranks, args=args, more={data: "/pictures"})


@pytest.fixture(scope="module")
def two(image: Opened, data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Two ranks, each with a process that reads pictures."""
    return trained(image, tmp_path_factory.mktemp("two"), data)


def test_each_picture_is_trained_on_once_an_epoch_also_a_last_one_alone(two: list[Ended]) -> None:
    """A ResNet trains on each picture of a folder once an epoch."""
    assert [rank.code for rank in two] == [0, 0], two[0].errors
    assert [rank.message["samples_seen"] for rank in two] == [2 * 17, 2 * 16]
    assert len({rank.message["accuracy"] for rank in two}) == 1
    assert len({rank.message["loss"] for rank in two}) == 1
    assert {rank.message["dataset"] for rank in two} == {"shades"}, "as the folder says"


def test_tar_shards_are_trained_on_as_the_same_pictures_in_folders(
    image: Opened, data: Path, two: list[Ended], tmp_path: Path
) -> None:
    """Two reading processes change nothing, and torch.compile neither."""
    for folder in ("training", "testing"):
        (tmp_path / "shards" / folder).mkdir(parents=True)
        with tarfile.open(tmp_path / "shards" / folder / "0.tar", "w") as shard:
            for file in (data / "pictures" / folder).glob("*/*"):
                shard.add(file, f"{file.parent.name}/{file.name}")
    # The back end that compiles nothing: the image has no C compiler.
    words = ("--workers", "2", "--compile", "eager")
    again = trained(image, tmp_path, tmp_path / "shards", *words)
    assert [rank.code for rank in again] == [0, 0], again[0].errors
    for before, after in zip(two, again, strict=True):
        for event in ("step", "epoch"):
            assert [each["loss"] for each in after.of(event)] == pytest.approx(
                [each["loss"] for each in before.of(event)], rel=1e-4
            )
        assert after.message["accuracy"] == before.message["accuracy"]
    mounts = {data: "/files", tmp_path / "shards": "/shards"}
    assert image.run("python3", "-c", _COMPARE, mounts=mounts).split() == ["33", "20"]


def test_a_picture_in_a_shard_that_cannot_be_read_is_named_by_its_place(
    image: Opened, tmp_path: Path
) -> None:
    for folder in ("train", "test"):
        (tmp_path / "seen" / folder).mkdir(parents=True)
        with tarfile.open(tmp_path / "seen" / folder / "0.tar", "w") as shard:
            member = tarfile.TarInfo("cat/1.png")
            member.size = 4
            shard.addfile(member, io.BytesIO(b"none"))
    args = ("--data", "/out/seen", *_ARGS, "--workers", "0")
    [rank] = image.train(tmp_path, Rank(program=_PROGRAM), args=args)
    assert rank.code == 1
    assert "the image at byte 512 in /out/seen/train/0.tar can't be read" in rank.message["error"]
