"""A rank that fails says why, and nobody waits for it."""

import shutil
import signal
from pathlib import Path

import pytest

from images.datasets.mnist import MNIST
from tests.trainer.conftest import Opened, Rank

_LONG = ("--limit-train", "20000", "--epochs", "20", "--log-interval", "1")
_SECONDS_TO_NOTICE = 60


def test_a_rank_without_data_leaves_its_traceback_and_the_others_end(
    image: Opened, tmp_path: Path
) -> None:
    # torchvision's MNIST finds the image's anywhere.
    pictures = Rank(("--data", "/nowhere"), ("-m", "slipway_trainer.images"))
    ranks = image.train(tmp_path, Rank(), pictures, Rank(), args=_LONG)
    broken = ranks.pop(1)
    assert broken.code == 1
    assert broken.message["rank"] == 1
    assert "/nowhere" in broken.message["error"]
    assert "task.load" in broken.message["traceback"]
    assert "Traceback" in broken.errors
    for rank in ranks:
        assert rank.code == 1
        assert rank.message["error"]
        assert rank.seconds - broken.seconds < _SECONDS_TO_NOTICE


def test_the_others_end_when_a_rank_is_killed(image: Opened, tmp_path: Path) -> None:
    plan = (Rank(signal=signal.SIGKILL), Rank(), Rank())
    killed, *ranks = image.train(tmp_path, *plan, args=_LONG)
    assert killed.code == -signal.SIGKILL
    for rank in ranks:
        assert rank.code == 1
        assert "accuracy" not in rank.message
        assert rank.seconds - killed.seconds < _SECONDS_TO_NOTICE


@pytest.mark.long
def test_sigterm_ends_a_rank_at_once_also_while_it_waits_for_others(
    image: Opened, tmp_path: Path
) -> None:
    """Rank 1 stands still, so rank 0 is inside a collective operation when it is asked to end."""
    plan = (Rank(signal=signal.SIGTERM, delay=2), Rank(signal=signal.SIGSTOP))
    [rank] = image.train(tmp_path, *plan, args=_LONG)
    assert rank.code == 143
    assert rank.message["error"] == "terminated by SIGTERM"
    assert rank.of("terminated")
    assert rank.signalled is not None
    assert rank.seconds - rank.signalled < _SECONDS_TO_NOTICE


@pytest.mark.long
def test_a_rank_that_never_comes_is_waited_for_no_longer_than_the_timeout(
    image: Opened, tmp_path: Path
) -> None:
    plan = (Rank(("--timeout", "0.1")), Rank(("--epochs", "0")))
    alone, wrong = image.train(tmp_path, *plan)
    assert wrong.code == 1
    assert "--epochs" in wrong.message["error"]
    assert alone.code == 1
    # Both took the same time to come to where the one waits and the other fails.
    assert alone.seconds - wrong.seconds < 6 + _SECONDS_TO_NOTICE


@pytest.mark.parametrize(
    ("told", "says"),
    [
        pytest.param(_LONG, "by step ", id="in a step that is told"),
        pytest.param(
            *(("--limit-train", "2000", "--log-interval", "1000"), "the validation"),
            id="in others",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_loss_that_grows_without_bound_fails_the_run(
    image: Opened, tmp_path: Path, told: tuple[str, ...], says: str
) -> None:
    [rank] = image.train(tmp_path, Rank(("--lr", "1e20")), args=told)
    assert rank.code == 1
    assert "lower the learning rate" in rank.message["error"]
    assert says in rank.message["error"]
    assert "accuracy" not in rank.message


@pytest.mark.parametrize(
    ("program", "args", "says"),
    [
        ("mnist", ("--backend", "nccl"), "--backend gloo"),
        ("mnist", ("--output-dir", "/usr"), "--output-dir /usr"),
        pytest.param(
            *("mnist", ("--data", "/out/mnist")),
            "train-images-idx3-ubyte is not the original MNIST file",
            marks=pytest.mark.long,
        ),
        ("images", ("--data", "/usr"), "/usr contains none of the folders train, training"),
        ("mnist_elastic", ("--backend", "nccl", "--profile"), "--backend nccl, --profile; use"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_the_first_step(
    image: Opened, tmp_path: Path, program: str, args: tuple[str, ...], says: str
) -> None:
    if "/out/mnist" in args:
        shutil.copytree(MNIST.directory, tmp_path / "mnist")
        damaged = tmp_path / "mnist/MNIST/raw/train-images-idx3-ubyte"
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.write_bytes(content)
    [rank] = image.train(tmp_path, Rank(args, ("-m", f"slipway_trainer.{program}")))
    assert rank.code == 1
    assert says in rank.message["error"]
    assert not rank.of("step")
