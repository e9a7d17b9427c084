"""A training that was stopped goes on from its newest checkpoint as if nothing had happened."""

import signal
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, Rank

_EVERY = 5
_SAVING = {Path(__file__).parent / "scripts/saving.py": "/saving.py"}
_SHORT = ("--limit-train", "3000", "--limit-test", "500", "--epochs", "2", "--batch-size", "64")
_SMALL = (*_SHORT, "--threads", "1", "--output-dir", "/out/model", "--precision", "float32")
_JOBS_OWN = {
    "SLIPWAY_CHECKPOINT_DIR": "/out/checkpoints",
    "SLIPWAY_CHECKPOINT_EVERY": f"{_EVERY} steps",
    "SLIPWAY_CHECKPOINT_KEEP": "2",
}
"""The variables of a job with `checkpoint: {every: 5 steps}`."""
_MNIST = Rank(("--log-interval", "1"))
# With dropout: its random numbers are part of the state. Its steps take longer: they are smaller.
_CIFAR = Rank(
    ("--log-interval", "1", "--limit-train", "900", "--batch-size", "16"),
    program=("-m", "slipway_trainer.cifar"),
)


def _losses(rank: Ended) -> dict[tuple[int, int], float]:
    return {(event["epoch"], event["step"]): event["loss"] for event in rank.of("step")}


def _weights(directory: Path) -> str:
    [model] = (directory / "model").glob("*.pt")
    return sha256(model.read_bytes()).hexdigest()


def _checkpoints(directory: Path) -> list[Path]:
    return sorted((directory / "checkpoints").glob("step-*.pt"))


def _straight(image: Opened, directory: Path, *ranks: Rank) -> list[Ended]:
    """Train without an interruption."""
    ended = image.train(directory, *ranks, args=_SMALL, env=_JOBS_OWN)
    assert [rank.code for rank in ended] == [0] * len(ranks), ended[0].errors
    return ended


@dataclass(frozen=True)
class Run:
    """A run of two ranks that has come to its end, and its directory."""

    directory: Path
    ranks: list[Ended]


@pytest.fixture(scope="module")
def trained(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("trained")
    return Run(directory, _straight(image, directory, _MNIST, _MNIST))


@pytest.fixture
def copied(trained: Run, tmp_path: Path) -> Path:
    """The checkpoints of that run, for one test to spoil."""
    place = tmp_path / "checkpoints"
    place.mkdir()
    place.chmod(0o777)
    for path in _checkpoints(trained.directory):
        (place / path.name).write_bytes(path.read_bytes())
    return tmp_path


def _resumes(image: Opened, directory: Path, whole: list[Ended], *ranks: Rank) -> None:
    """Kill the last rank in the middle, resume, and compare with those that went straight."""
    killed = replace(ranks[-1], signal=signal.SIGKILL, steps=20)
    before = image.train(directory, *ranks[:-1], killed, args=_SMALL, env=_JOBS_OWN)
    assert before[-1].code == -signal.SIGKILL
    assert not any(rank.of("completed") for rank in before)
    newest = _checkpoints(directory)[-1]
    after = _straight(image, directory, *ranks)
    [resumed] = after[0].of("resumed")
    # Killed between a checkpoint and the word of it, it has one more than it told of.
    assert newest.name.startswith(f"step-{resumed['step']:09}")
    assert resumed["step"] - before[0].of("checkpoint")[-1]["step"] in {0, _EVERY}
    for number in range(len(ranks)):
        told = _losses(before[number]) | _losses(after[number])
        assert told == _losses(whole[number]), "every step's loss, to the last bit"
        assert len(_losses(after[number])) < len(told)
        same = ("accuracy", "epoch_accuracies", "loss", "samples_seen")
        assert all(after[number].message[key] == whole[number].message[key] for key in same)


def test_a_killed_training_resumes_bit_for_bit_from_the_last_two_that_are_kept(
    image: Opened, tmp_path: Path, trained: Run
) -> None:
    # 3,000 samples, two ranks of 64: 24 steps an epoch, 48 in all.
    names = [path.name.split(".")[0] for path in _checkpoints(trained.directory)]
    assert names == ["step-000000040", "step-000000045"]
    lines = (trained.directory / "0.0.out").read_text()
    for path in _checkpoints(trained.directory):
        assert f'"path": "/out/checkpoints/{path.name}"' in lines
        assert sha256(path.read_bytes()).hexdigest()[:16] == path.name.split(".")[1]
    _resumes(image, tmp_path, trained.ranks, _MNIST, _MNIST)
    assert _weights(tmp_path) == _weights(trained.directory)


@pytest.mark.long
def test_a_killed_training_with_random_numbers_resumes_bit_for_bit(
    image: Opened, tmp_path: Path
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    _resumes(image, stopped, _straight(image, straight, _CIFAR, _CIFAR), _CIFAR, _CIFAR)
    assert _weights(stopped) == _weights(straight)


def test_a_damaged_newest_one_is_passed_over_with_a_warning(
    image: Opened, copied: Path, trained: Run
) -> None:
    newest = _checkpoints(copied)[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    ranks = _straight(image, copied, _MNIST, _MNIST)
    [warning] = ranks[0].of("warning")
    assert newest.name in warning["warning"]
    assert [rank.of("resumed")[0]["step"] for rank in ranks] == [40, 40]
    assert _weights(copied) == _weights(trained.directory)
    [_, last] = _checkpoints(copied)
    assert sha256(last.read_bytes()).hexdigest()[:16] == last.name.split(".")[1]


def test_when_none_is_whole_it_says_so_and_does_not_start_over(image: Opened, copied: Path) -> None:
    for path in _checkpoints(copied):
        path.write_bytes(b"")
    [rank] = image.train(copied, Rank(), args=_SMALL, env=_JOBS_OWN)
    assert rank.code == 1
    assert "all checkpoints in /out/checkpoints" in rank.message["error"]


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.long)])
def test_another_number_of_ranks_goes_on_within_tolerance(
    image: Opened, copied: Path, trained: Run, size: int
) -> None:
    ranks = _straight(image, copied, *[_MNIST] * size)
    for rank in ranks:
        assert rank.of("resumed")[0]["step"] == 45
        assert rank.message["world_size"] == size
        assert rank.message["accuracy"] == pytest.approx(
            trained.ranks[0].message["accuracy"], abs=0.05
        )
    assert sum(rank.message["samples_seen"] for rank in ranks) == 2 * 3000


@pytest.mark.long
def test_sigterm_is_answered_with_a_checkpoint_after_the_step_at_hand(
    image: Opened, tmp_path: Path, trained: Run
) -> None:
    """As a job it needs no option, and the next attempt goes on to the same weights."""
    rare = _JOBS_OWN | {"SLIPWAY_CHECKPOINT_EVERY": "3600 s"}
    stopped = replace(_MNIST, signal=signal.SIGTERM, steps=20)
    ranks = image.train(tmp_path, _MNIST, stopped, args=_SMALL, env=rare)
    assert ranks[1].code == 128 + signal.SIGTERM, ranks[1].errors
    assert ranks[1].message["error"] == "terminated by SIGTERM"
    [kept] = ranks[0].of("checkpoint")
    assert kept["step"] >= 20
    ended = _straight(image, tmp_path, _MNIST, _MNIST)
    assert [rank.of("resumed")[0]["step"] for rank in ended] == [kept["step"]] * 2
    assert _weights(tmp_path) == _weights(trained.directory)


@pytest.mark.parametrize(
    ("end", "args"),
    [
        pytest.param(signal.SIGTERM, (), id="stopped", marks=pytest.mark.long),
        pytest.param(
            signal.SIGKILL, ("--beside",), id="killed while it writes beside the training"
        ),
        pytest.param(signal.SIGKILL, ("--own",), id="only rank 0's pod has the checkpoints"),
    ],
)
def test_a_user_script_resumes_bit_for_bit(
    image: Opened, tmp_path: Path, end: signal.Signals, args: tuple[str, ...]
) -> None:
    script, straight = Rank(args, program=("/saving.py",)), tmp_path / "straight"
    whole = image.train(straight, script, script, more=_SAVING)
    assert not whole[0].of("checkpoint"), "outside of a job with `checkpoint` nothing is written"
    last = replace(script, signal=end, steps=20)
    # Rank 0 is the one that writes.
    before = image.train(tmp_path, last, script, env=_JOBS_OWN, more=_SAVING)
    assert before[0].code == (-end if end == signal.SIGKILL else 128 + end), before[0].errors
    after = image.train(tmp_path, script, script, env=_JOBS_OWN, more=_SAVING)
    [resumed] = after[0].of("resumed")
    # One that is being written beside the training is lost with it.
    assert resumed["step"] >= 20 - _EVERY * (1 + len(args))
    if end == signal.SIGTERM:
        assert resumed["step"] >= 20
    digests = [rank.of("done")[0]["weights"] for rank in (*whole, *after)]
    assert len(set(digests)) == 1


def test_a_state_that_could_not_be_read_again_is_refused_when_it_is_saved(
    image: Opened, tmp_path: Path
) -> None:
    script = Rank(args=("--bad",), program=("/saving.py",))
    [rank] = image.train(tmp_path, script, env=_JOBS_OWN, more=_SAVING)
    assert rank.code == 1
    assert "a checkpoint can contain only tensors, numbers, strings" in rank.errors
    assert not list((tmp_path / "checkpoints").iterdir())
