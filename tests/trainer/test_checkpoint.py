"""A training that was stopped goes on from its newest checkpoint as if nothing had happened."""

import signal
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, Rank

_EVERY = 5
_SHORT = ("--limit-train", "3000", "--limit-test", "500", "--epochs", "2", "--batch-size", "64")
_SMALL = (*_SHORT, "--threads", "1", "--output-dir", "/out/model", "--precision", "float32")
_TRAIN = (*_SMALL, "--checkpoint", "/out/checkpoints", "--checkpoint-every", str(_EVERY))
_MNIST = Rank(("--log-interval", "1"))
# With dropout: its random numbers are part of the state. Its steps take longer: they are smaller.
_CIFAR = Rank(
    ("--print-freq", "1", "--limit-train", "900", "--batch-size", "16"),
    program=("-m", "slipway_trainer.cifar"),
)


def _losses(rank: Ended) -> dict[tuple[int, int], float]:
    return {(event["epoch"], event["step"]): event["loss"] for event in rank.of("step")}


def _weights(directory: Path) -> str:
    [model] = (directory / "model").glob("*.pt")
    return sha256(model.read_bytes()).hexdigest()


def _checkpoints(directory: Path) -> list[Path]:
    return sorted((directory / "checkpoints").glob("step-*.pt"))


def _straight(
    image: Opened, directory: Path, *ranks: Rank, args: Sequence[str] = _TRAIN
) -> list[Ended]:
    """Train without an interruption."""
    ended = image.train(directory, *ranks, args=args)
    assert [rank.code for rank in ended] == [0] * len(ranks), ended[0].errors
    return ended


def _killed(image: Opened, directory: Path, *ranks: Rank) -> list[Ended]:
    """Train until the last rank is killed, in the middle."""
    last = replace(ranks[-1], signal=signal.SIGKILL, steps=20)
    ended = image.train(directory, *ranks[:-1], last, args=_TRAIN)
    assert ended[-1].code == -signal.SIGKILL
    assert not any(rank.of("completed") for rank in ended)
    assert ended[0].of("checkpoint"), "it was killed before the first checkpoint"
    return ended


@pytest.mark.parametrize(
    ("demo", "size"),
    [
        pytest.param(_MNIST, 1, id="mnist-1", marks=pytest.mark.long),
        pytest.param(_MNIST, 3, id="mnist-3"),
        pytest.param(_CIFAR, 2, id="cifar-2"),
    ],
)
def test_a_killed_training_resumes_bit_for_bit(
    image: Opened, tmp_path: Path, demo: Rank, size: int
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    straight.mkdir()
    stopped.mkdir()
    ranks = [demo] * size
    whole = _straight(image, straight, *ranks)
    before = _killed(image, stopped, *ranks)
    newest = _checkpoints(stopped)[-1]
    after = _straight(image, stopped, *ranks, args=(*_TRAIN, "--resume"))

    [resumed] = after[0].of("resumed")
    # Killed between a checkpoint and the word of it, it has one more than it told of.
    assert newest.name.startswith(f"step-{resumed['step']:09}")
    assert resumed["step"] - before[0].of("checkpoint")[-1]["step"] in {0, _EVERY}
    for number in range(size):
        told = _losses(before[number]) | _losses(after[number])
        assert told == _losses(whole[number]), "every step's loss, to the last bit"
        assert len(_losses(after[number])) < len(told)
        same = ("accuracy", "epoch_accuracies", "loss", "samples_seen")
        assert all(after[number].message[key] == whole[number].message[key] for key in same)
    assert _weights(stopped) == _weights(straight)


@pytest.fixture(scope="module")
def trained(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two ranks that has come to its end."""
    directory = tmp_path_factory.mktemp("trained")
    _straight(image, directory, _MNIST, _MNIST)
    return directory


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """The checkpoints of that run, for one test to spoil."""
    (tmp_path / "checkpoints").mkdir(mode=0o777)
    (tmp_path / "checkpoints").chmod(0o777)
    for path in _checkpoints(trained):
        (tmp_path / "checkpoints" / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_the_last_two_are_kept_and_told(trained: Path) -> None:
    # 3,000 samples, two ranks of 64: 24 steps an epoch, 48 in all.
    names = [path.name.split(".")[0] for path in _checkpoints(trained)]
    assert names == ["step-000000040", "step-000000045"]
    lines = (trained / "0.out").read_text()
    for path in _checkpoints(trained):
        assert f'"path": "/out/checkpoints/{path.name}"' in lines
        assert sha256(path.read_bytes()).hexdigest()[:16] == path.name.split(".")[1]


@pytest.mark.parametrize("damage", ["torn", "changed", "empty"])
def test_a_damaged_newest_one_is_passed_over_with_a_warning(
    image: Opened, copied: Path, trained: Path, damage: str
) -> None:
    newest = _checkpoints(copied)[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(
        {"torn": bytes(content[: len(content) // 2]), "changed": bytes(content), "empty": b""}[
            damage
        ]
    )
    ranks = _straight(image, copied, _MNIST, _MNIST, args=(*_TRAIN, "--resume"))
    [warning] = ranks[0].of("warning")
    assert newest.name in warning["warning"]
    assert [rank.of("resumed")[0]["step"] for rank in ranks] == [40, 40]
    assert _weights(copied) == _weights(trained)
    [_, last] = _checkpoints(copied)
    assert sha256(last.read_bytes()).hexdigest()[:16] == last.name.split(".")[1]


def test_when_none_is_whole_it_says_so_and_does_not_start_over(image: Opened, copied: Path) -> None:
    for path in _checkpoints(copied):
        path.write_bytes(b"")
    ranks = image.train(copied, Rank(), Rank(), args=(*_TRAIN, "--resume"))
    assert ranks[0].code == 1
    assert "none of the checkpoints in /out/checkpoints" in ranks[0].message["error"]


@pytest.mark.parametrize(
    ("size", "changed", "says"),
    [
        (1, (), ["the world size was 2 and is 1"]),
        (
            2,
            ("--lr", "0.1", "--batch-size", "32", "--seed", "2", "--limit-train", "2000"),
            [
                "the learning rate was 0.01 and is 0.1",
                "the batch size was 64 and is 32",
                "the seed was 1 and is 2",
                "the number of samples was 3000 and is 2000",
            ],
        ),
    ],
)
def test_one_of_another_training_is_refused_with_every_difference(
    image: Opened, copied: Path, size: int, changed: tuple[str, ...], says: list[str]
) -> None:
    args = (*_TRAIN, "--resume", *changed)
    ranks = image.train(copied, *[Rank()] * size, args=args)
    assert ranks[0].code == 1
    assert all(each in ranks[0].message["error"] for each in says), ranks[0].message
    assert len(_checkpoints(copied)) == 2


def test_a_new_training_does_not_write_among_anothers_checkpoints(
    image: Opened, copied: Path
) -> None:
    [rank] = image.train(copied, Rank(), args=_TRAIN)
    assert rank.code == 1
    assert "add --resume" in rank.message["error"]


def test_resume_without_a_checkpoint_begins_at_the_beginning(image: Opened, tmp_path: Path) -> None:
    [rank] = image.train(tmp_path, Rank(), args=(*_TRAIN, "--resume", "--epochs", "1"))
    assert rank.code == 0, rank.errors
    assert not rank.of("resumed")


def test_resume_without_a_directory_is_refused(image: Opened, tmp_path: Path) -> None:
    [rank] = image.train(tmp_path, Rank(), args=(*_SMALL, "--resume"))
    assert rank.code == 1
    assert "--resume needs --checkpoint" in rank.message["error"]
