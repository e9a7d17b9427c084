"""The examples in plain torch, tracked and elastic, run as real processes in the image."""

import json
import signal
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.trainer.conftest import Opened, Rank
from tests.trainer.elastic_jobs import Blow, Job, Outcome, run

_TRACKED = {CHECKOUT / "examples/tracked": "/examples"}
_SAMPLES = 6000
_LIMIT = ("--limit", str(_SAMPLES))


def test_the_plain_script_trains_in_two_processes(image: Opened, tmp_path: Path) -> None:
    plain = Rank(("--limit", "2000", "--epochs", "2"), program=("/examples/plain.py",))
    ranks = image.train(tmp_path, plain, plain, env={"OMP_NUM_THREADS": "1"}, more=_TRACKED)
    for number, rank in enumerate(ranks):
        assert rank.code == 0, rank.errors
        losses = [event["metrics"]["loss"] for event in rank.events]
        assert losses[1] < losses[0]
        assert rank.message == {
            "rank": number, "dataset": "mnist", "metrics": {"loss": losses[1]},
            "epoch_metrics": {"loss": losses},
        }  # fmt: skip


def _elastic(image: Opened, directory: Path, *blows: Blow) -> Outcome:
    """Run two workers of the elastic script."""
    program = ("/examples/tracked_elastic.py", *_LIMIT, "--epochs", "1")
    env = {"SLIPWAY_RUN_ID": "run-1"}
    return run(image, directory, Job(program, blows, workers=2, nodes="1:2", env=env), _TRACKED)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture(scope="module")
def undisturbed(image: Opened, directory: Path) -> Outcome:
    return _elastic(image, directory)


def test_the_tracked_script_reports_its_accuracy_and_samples_and_rank_0_saves_the_model(
    undisturbed: Outcome, directory: Path
) -> None:
    lives = undisturbed.lives
    assert [life.code for life in lives.values()] == [0, 0], lives[0, 0].errors
    messages = {worker: life.message for (worker, _), life in lives.items()}
    assert sorted(message["rank"] for message in messages.values()) == [0, 1]
    assert sum(message["samples_seen"] for message in messages.values()) == _SAMPLES
    for life in lives.values():
        [epoch], [validation] = life.of("epoch"), life.of("validation")
        message = life.message
        assert message["accuracy"] == epoch["accuracy"] == validation["accuracy"]
        assert message["accuracy"] == messages[0]["accuracy"] > 0.3
        assert message["top5_accuracy"] > message["accuracy"]
        assert message["total_samples_seen"] == _SAMPLES
        assert message["world_size"] == 2
        assert epoch["samples"] == message["samples_seen"]
        assert epoch["run_id"] == "run-1"
        assert epoch["seconds_in"].keys() == {"data", "forward", "backward", "optimizer"}
        assert life.of("step")
    [worker] = [each for each, message in messages.items() if message["rank"] == 0]
    assert [*directory.glob("outputs-*/model.pt")] == [directory / f"outputs-{worker}.0/model.pt"]


@pytest.mark.long
def test_when_one_is_killed_the_other_trains_on_every_sample_once(
    image: Opened, tmp_path: Path, undisturbed: Outcome
) -> None:
    outcome = _elastic(image, tmp_path, Blow(0, 20))
    lost, left = outcome.lives[0, 0], outcome.lives[1, 0]
    assert (lost.code, left.code) == (-signal.SIGKILL, 0), left.errors
    [ledger] = left.of("ledger")
    assert (ledger["counted_once"], ledger["missing"], ledger["repeated"]) == (_SAMPLES, 0, 0)
    assert left.message["rank"] == 0
    assert left.message["world_size"] == 1
    assert left.message["total_samples_seen"] == _SAMPLES
    assert _SAMPLES / 2 < left.message["samples_seen"] < _SAMPLES
    # 6,000 samples are the very beginning, where a step more counts for points.
    before = undisturbed.lives[0, 0].message["accuracy"]
    assert left.message["accuracy"] == pytest.approx(before, abs=0.2)
    assert (tmp_path / "outputs-1.0/model.pt").exists()


def test_the_evaluation_finds_out_what_the_training_found(image: Opened, tmp_path: Path) -> None:
    args = ("--no-cuda", "--limit-train", "2000", "--output-dir", "/out")
    image.train(tmp_path, Rank(args))
    trained = json.loads((tmp_path / "accuracies.json").read_text())
    evaluate = {CHECKOUT / "examples/evaluate": "/examples"}
    env = {"SLIPWAY_INPUT_MODEL": "/out/mnist_cnn.pt"}
    [rank] = image.train(tmp_path, Rank(program=("/examples/evaluate.py",)), env=env, more=evaluate)
    told = rank.message
    # In another memory layout a sum is rounded otherwise, and one picture of 10,000 may tip over.
    assert told["accuracy"] == pytest.approx(trained["accuracy"], abs=1e-3)
    assert told["accuracy"] > 0.5
    assert told["top5_accuracy"] == pytest.approx(trained["top5_accuracy"], abs=1e-3)
    assert len(told["class_accuracies"]) == 10
    assert told["dataset"] == "mnist"
    assert "loss" not in told
