"""The trainer, run for real in the image's own Python on the real data."""

from pathlib import Path

import pytest

from tests.trainer.conftest import Ended, Opened, Rank

# By name, so that runs that are compared calculate alike, and round finely enough.
_TOLD = ("--limit-test", "1000", "--log-interval", "1", "--precision", "float32")
_SMALL = ("--limit-train", "2000", *_TOLD)
# 1000 samples over 3 ranks of 64: the last global batch has 40, so shares of 14, 13 and 13.
_UNEVEN = ("--limit-train", "1000", *_TOLD)


@pytest.fixture(scope="module")
def four(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Four ranks that trained on the same 2,000 samples."""
    return image.train(tmp_path_factory.mktemp("four"), *[Rank()] * 4, args=_SMALL)


def _losses(ended: Ended) -> list[float]:
    return [event["loss"] for event in ended.of("step")]


def test_four_ranks_share_samples_and_cores_and_agree_on_the_result(
    image: Opened, four: list[Ended]
) -> None:
    """2,000 samples in global batches of 4 x 64 are 8 steps; the events tell the same."""
    assert [rank.code for rank in four] == [0, 0, 0, 0], four[0].errors
    assert len({rank.message["accuracy"] for rank in four}) == 1
    threads = max(1, int(image.run("nproc")) // 4)
    for number, rank in enumerate(four):
        [started], [epoch] = rank.of("started"), rank.of("epoch")
        assert started["threads"] == threads
        assert started["world_size"] == rank.message["world_size"] == 4
        assert started["backend"] == rank.message["backend"] == "gloo"
        assert rank.message["dataset"] == "mnist"
        assert rank.message["epoch_accuracies"] == [epoch["accuracy"]]
        assert rank.message["loss"] == epoch["loss"] == four[0].message["loss"]
        samples = rank.message["samples_seen"], epoch["samples"], rank.of("step")[-1]["samples"]
        assert samples == (500, 500, 500)
        assert [event["step"] for event in rank.of("step")] == list(range(8))
        assert {event["steps"] for event in rank.of("step")} == {8}
        assert {event["rank"] for event in rank.events} == {number}


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
    three = image.train(tmp_path / "three", *[Rank()] * 3, args=(*_UNEVEN, "--lr", "0.01"))
    whole = ("--batch-size", str(3 * 64), "--lr", "0.03")
    [one] = image.train(tmp_path / "one", Rank(whole), args=_UNEVEN)

    assert sum(rank.message["samples_seen"] for rank in three) == 1000
    assert [rank.message["samples_seen"] for rank in three] == [334, 333, 333]
    assert one.message["samples_seen"] == 1000
    assert three[0].message["loss"] == pytest.approx(one.message["loss"], rel=1e-4)
    # One of 1,000 may fall on the other side.
    assert three[0].message["accuracy"] == pytest.approx(one.message["accuracy"], abs=0.0021)
