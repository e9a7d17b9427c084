"""The trainer, run for real in the image's own Python on the real data."""

import json
import shutil
from pathlib import Path

import pytest

from images.datasets.mnist import MNIST
from tests.trainer.conftest import Ended, Opened, Rank, free_port

# By name, so that runs that are compared calculate alike.
_SMALL = ("--limit-train", "2000", "--limit-test", "1000", "--log-interval", "1",
          "--precision", "float32")  # fmt: skip
# 1000 samples over 3 ranks of 64: the last global batch has 40, so shares of 14, 13 and 13.
# With 32-bit numbers, which round finely enough to compare.
_UNEVEN = ("--limit-train", "1000", "--limit-test", "1000", "--log-interval", "1",
           "--precision", "float32")  # fmt: skip


@pytest.fixture(scope="module")
def four(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Four ranks that trained on the same 2,000 samples."""
    return image.train(tmp_path_factory.mktemp("four"), *[Rank()] * 4, args=_SMALL)


def _losses(ended: Ended) -> list[float]:
    return [event["loss"] for event in ended.of("step")]


def test_four_ranks_share_the_samples_and_agree_on_the_result(four: list[Ended]) -> None:
    assert [rank.code for rank in four] == [0, 0, 0, 0], four[0].errors
    assert [rank.message["samples_seen"] for rank in four] == [500, 500, 500, 500]
    assert len({rank.message["accuracy"] for rank in four}) == 1
    assert len({rank.message["loss"] for rank in four}) == 1


def test_the_events_tell_the_same_as_the_termination_message(four: list[Ended]) -> None:
    for number, rank in enumerate(four):
        [started], [epoch] = rank.of("started"), rank.of("epoch")
        assert started["world_size"] == rank.message["world_size"] == 4
        assert started["backend"] == rank.message["backend"] == "gloo"
        assert rank.message["dataset"] == "mnist"
        assert rank.message["epoch_accuracies"] == [epoch["accuracy"]]
        assert rank.message["loss"] == epoch["loss"]
        assert rank.message["samples_seen"] == epoch["samples"] == rank.of("step")[-1]["samples"]
        assert {event["rank"] for event in rank.events} == {number}


def test_each_step_event_has_the_total_number_of_steps(four: list[Ended]) -> None:
    """2,000 samples in global batches of 4 x 64 are 8 steps."""
    for rank in four:
        assert [event["step"] for event in rank.of("step")] == list(range(8))
        assert {event["steps"] for event in rank.of("step")} == {8}


def test_the_same_seed_gives_the_same_curve_also_with_processes_that_get_batches_ready(
    image: Opened, four: list[Ended], tmp_path: Path
) -> None:
    again = image.train(tmp_path, *[Rank()] * 4, args=(*_SMALL, "--workers", "2"))
    assert [_losses(rank) for rank in again] == [_losses(rank) for rank in four]
    assert again[0].message["accuracy"] == four[0].message["accuracy"]


@pytest.mark.long
def test_ranks_with_uneven_shares_train_as_one_with_the_whole_batch(
    image: Opened, tmp_path: Path
) -> None:
    """Same samples, same global batch, same learning rate: only rounding tells them apart."""
    (tmp_path / "three").mkdir()
    (tmp_path / "one").mkdir()
    three = image.train(tmp_path / "three", *[Rank()] * 3, args=(*_UNEVEN, "--lr", "0.01"))
    whole = ("--batch-size", str(3 * 64), "--lr", "0.03")
    [one] = image.train(tmp_path / "one", Rank(whole), args=_UNEVEN)

    assert sum(rank.message["samples_seen"] for rank in three) == 1000
    assert [rank.message["samples_seen"] for rank in three] == [334, 333, 333]
    assert one.message["samples_seen"] == 1000
    assert three[0].message["loss"] == pytest.approx(one.message["loss"], rel=1e-4)
    # One of 1,000 may fall on the other side.
    assert three[0].message["accuracy"] == pytest.approx(one.message["accuracy"], abs=0.0021)


@pytest.fixture(scope="module")
def two(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Two ranks that trained on 129 samples in batches of 64 each."""
    args = ("--limit-train", "129", "--limit-test", "100")
    ranks = image.train(tmp_path_factory.mktemp("two"), Rank(), Rank(), args=args)
    assert [rank.code for rank in ranks] == [0, 0], ranks[1].errors
    return ranks


def test_a_rank_without_a_sample_in_the_last_batch_goes_along(two: list[Ended]) -> None:
    """One of the 129 is left, and rank 1 has none of it."""
    assert [rank.message["samples_seen"] for rank in two] == [65, 64]


def test_ranks_of_one_machine_share_its_cores(image: Opened, two: list[Ended]) -> None:
    cores = int(image.run("nproc"))
    assert [rank.of("started")[0]["threads"] for rank in two] == [max(1, cores // 2)] * 2


@pytest.mark.long
def test_a_module_runs_under_torchrun(image: Opened) -> None:
    line = image.run(
        "torchrun", "--nproc-per-node=2", f"--master-port={free_port()}",
        "-m", "slipway_trainer.mnist", "--limit-train", "256", "--limit-test", "100",
    )  # fmt: skip
    events = [json.loads(text) for text in line.splitlines() if text.startswith("{")]
    completed = [event for event in events if event["event"] == "completed"]
    assert {event["rank"] for event in completed} == {0, 1}
    assert {event["world_size"] for event in completed} == {2}


@pytest.mark.long
def test_the_accuracy_does_not_depend_on_how_many_ranks_there_are(
    image: Opened, tmp_path: Path
) -> None:
    """Each rank keeps its batch size, so the learning rate grows with their number."""
    accuracies = []
    for size in (1, 4):
        directory = tmp_path / str(size)
        directory.mkdir()
        args = ("--limit-train", "20000", "--epochs", "2")
        ranks = image.train(directory, *[Rank()] * size, args=args)
        assert sum(rank.message["samples_seen"] for rank in ranks) == 2 * 20000
        accuracies.append(ranks[0].message["accuracy"])
    assert min(accuracies) > 0.95
    assert max(accuracies) - min(accuracies) <= 0.01


@pytest.mark.long
def test_data_that_are_not_mnists_are_refused(image: Opened, tmp_path: Path) -> None:
    shutil.copytree(MNIST.directory, tmp_path / "mnist")
    damaged = tmp_path / "mnist/MNIST/raw/train-images-idx3-ubyte"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    [rank] = image.train(tmp_path, Rank(("--data", "/out/mnist")))
    assert rank.code == 1
    assert "train-images-idx3-ubyte is not the original MNIST file" in rank.message["error"]


def test_an_output_directory_that_takes_no_file_fails_before_the_first_step(
    image: Opened, tmp_path: Path
) -> None:
    [rank] = image.train(tmp_path, Rank(("--output-dir", "/usr")))
    assert rank.code == 1
    assert "--output-dir /usr" in rank.message["error"]
    assert not rank.of("step")
