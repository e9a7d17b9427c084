"""MLBench's tracker: what it measures, its goal, and the events, which the schema describes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.trainer.conftest import Ended, Opened, Rank

_SCHEMA = Path(__file__).parents[2] / "docs/schemas/events.schema.json"
_VALID = Draft202012Validator(json.loads(_SCHEMA.read_text()))
_TRAIN = ("--limit-train", "2000", "--limit-test", "500", "--log-interval", "4")

# A loop of one's own with the calls of MLBench's tutorial, on two gloo ranks.
_SCRIPT = """
import time, torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from slipway_trainer.training import report
from slipway_trainer.training.goals import task1_time_to_accuracy_goal
from slipway_trainer.training.metrics import TopKAccuracy
from slipway_trainer.training.tracker import Tracker
from slipway_trainer.training.validation import validation_round

def main(events):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    net, truth, data = torch.nn.Linear(20, 10), torch.nn.Linear(20, 10), torch.randn(400, 20)
    model, target = torch.nn.parallel.DistributedDataParallel(net), truth(data).argmax(1)
    batches = list(zip(data[rank::2].split(50), target[rank::2].split(50)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    metrics = [TopKAccuracy(topk=1), TopKAccuracy(topk=5)]
    tracker = Tracker(metrics, "run-7", rank, goal=task1_time_to_accuracy_goal)
    tracker.start()
    for epoch in range(200):
        tracker.train()
        for x, y in batches:
            tracker.batch_start()
            optimizer.zero_grad()
            output = model(x)
            tracker.record_batch_step("forward")
            loss = cross_entropy(output, y)
            tracker.record_batch_step("loss")
            loss.backward()
            tracker.record_batch_step("backward")
            time.sleep(0.05 if epoch == 0 else 0)
            optimizer.step()
            tracker.batch_end(len(y))
            tracker.record_loss(loss.item() * len(y), len(y))
        validation_round(batches, model, cross_entropy, metrics, "run-7", rank, tracker=tracker)
        tracker.epoch_end()
        if tracker.goal_reached:
            break
    whole = (net(data).argmax(1) == target).float().mean().item()
    return tracker.summary() | {"backend": "gloo", "dataset": "made up", "whole": whole}

report.run(main)
"""


def _problems(events: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{event}: {error.message}" for event in events for error in _VALID.iter_errors(event)]


@pytest.fixture(scope="module")
def two(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Two ranks that stop at a goal, which is looked at in every fourth step."""
    goal = ("--goal", "accuracy=0.75", "--validate-every", "4", "--epochs", "9")
    directory = tmp_path_factory.mktemp("two")
    return image.train(directory, Rank(), Rank(), args=(*_TRAIN, *goal))


@pytest.fixture(scope="module")
def script(image: Opened, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Two ranks that run the loop of one's own."""
    directory = tmp_path_factory.mktemp("script")
    (directory / "script.py").write_text(_SCRIPT)
    return image.train(directory, *[Rank(program=("/out/script.py",))] * 2)


def test_every_event_is_as_the_schema_says(two: list[Ended], script: list[Ended]) -> None:
    events = [event for rank in (*two, *script) for event in rank.events]
    kinds = {event["event"] for event in events}
    assert kinds == {"started", "step", "validation", "goal_reached", "epoch", "completed"}
    # The one value that the script above adds of its own.
    assert _problems({k: v for k, v in event.items() if k != "whole"} for event in events) == []
    for kind in kinds - {"started"}:
        event = two[0].of(kind)[0]
        assert _problems([event | {"surplus": 1}])
        for name in ("rank", "time"):
            assert _problems([{key: value for key, value in event.items() if key != name}])


def test_a_goal_stops_all_ranks_in_the_same_step(two: list[Ended]) -> None:
    assert [rank.code for rank in two] == [0, 0], two[0].errors
    reached = [rank.of("goal_reached") for rank in two]
    assert [len(events) for events in reached] == [1, 1]
    [first], [second] = reached
    assert (first["epoch"], first["step"]) == (second["epoch"], second["step"])
    last = [rank.of("epoch")[-1] for rank in two]
    assert last[0]["steps"] == last[1]["steps"] == first["step"]
    assert first["step"] in {4, 8, 12, 16}
    for rank in two:
        assert rank.message["goal"] == "accuracy=0.75"
        assert rank.message["goal_reached"] is True
        assert rank.message["accuracy"] >= 0.75
        assert 0 < rank.message["time_to_accuracy_seconds"] <= rank.message["duration_seconds"]
        earlier = rank.of("validation")[:-1]
        assert all(event["accuracy"] < 0.75 for event in earlier)
        assert rank.of("validation")[-1]["accuracy"] == rank.message["accuracy"]
        first_epoch = [event["step"] for event in rank.of("validation") if event["epoch"] == 1]
        assert first_epoch == [4, 8, 12, 16]
        for event in rank.of("validation"):
            assert event["accuracy"] <= event["top5_accuracy"] <= 1
    # Counted up to the step that it stopped in.
    seen = 2000 * (len(two[0].of("epoch")) - 1) + first["step"] * 2 * 64
    assert sum(rank.message["samples_seen"] for rank in two) == seen


def test_the_parts_of_steps_add_up_to_the_epoch(two: list[Ended]) -> None:
    for rank in two:
        threads = rank.of("started")[0]["threads"]
        for epoch in rank.of("epoch"):
            parts = epoch["seconds_in"]
            assert set(parts) == {"data", "forward", "backward", "optimizer"}
            assert sum(parts.values()) == pytest.approx(epoch["seconds"], rel=0.1, abs=0.02)
            assert 0 < epoch["cpu_seconds"] <= epoch["seconds"] * (threads + 1) + 0.1
            assert epoch["peak_memory_mib"] > 100


def test_a_custom_training_loop_is_tracked(script: list[Ended]) -> None:
    assert [rank.code for rank in script] == [0, 0], script[0].errors
    for rank in script:
        epochs = rank.of("epoch")
        assert [event["epoch"] for event in epochs] == list(range(1, len(epochs) + 1))
        assert {event["run_id"] for event in epochs} == {"run-7"}
        assert {"data", "forward", "loss", "backward", "optimizer"} == set(epochs[0]["seconds_in"])
        # It slept for 0.05 s in each of four steps, after the backward pass.
        assert epochs[0]["seconds_in"]["optimizer"] >= 0.2
        # One epoch may have waited for the other rank, which the machine held up.
        assert min(epoch["seconds_in"]["optimizer"] for epoch in epochs[1:]) < 0.2
        assert rank.message["samples_seen"] == 200 * len(epochs)
        assert rank.message["goal_reached"] is True
        assert rank.message["accuracy"] == pytest.approx(rank.message["whole"], abs=1e-4)
    mean = sum(rank.of("epoch")[0]["rank_loss"] for rank in script) / 2
    assert script[0].of("epoch")[0]["loss"] == pytest.approx(mean, abs=1e-5)
    assert script[0].message["epoch_accuracies"] == script[1].message["epoch_accuracies"]


def test_a_profile_shows_the_operators_of_a_few_steps_and_a_goal_may_be_out_of_reach(
    image: Opened, tmp_path: Path
) -> None:
    args = ("--limit-train", "640", "--limit-test", "64", "--profile", "--goal", "accuracy=1")
    ranks = image.train(tmp_path, Rank(), Rank(), args=args)
    for rank in ranks:
        assert rank.code == 0, rank.errors
        assert rank.message["goal_reached"] is False
        assert "time_to_accuracy_seconds" not in rank.message
    traces = sorted(tmp_path.glob("outputs-*/profile/*.json"))
    assert [trace.name.split(".")[0] for trace in traces] == ["rank0", "rank1"]
    for trace in traces:
        names = [event.get("name") for event in json.loads(trace.read_text())["traceEvents"]]
        assert sum(name == "aten::convolution_backward" for name in names) == 3 * 2
