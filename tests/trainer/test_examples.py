"""The examples in plain torch, tracked and elastic, run as real processes in the image."""

import json
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from tests.trainer.conftest import Opened, Rank
from tests.trainer.elastic_jobs import Job, run

_TRACKED = {CHECKOUT / "examples/tracked": "/examples"}
_SAMPLES = 6000


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


def test_the_tracked_script_reports_its_accuracy_and_samples_and_rank_0_saves_the_model(
    image: Opened, tmp_path: Path
) -> None:
    program = ("/examples/tracked_elastic.py", "--limit", str(_SAMPLES), "--epochs", "1")
    job = Job(program, workers=2, nodes="1:2", env={"SLIPWAY_RUN_ID": "run-1"})
    lives = run(image, tmp_path, job, _TRACKED).lives
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
    assert [*tmp_path.glob("outputs-*/model.pt")] == [tmp_path / f"outputs-{worker}.0/model.pt"]


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
