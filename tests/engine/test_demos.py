"""The catalogue's demos, run as a person would add them to the stack: one line each."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from jobs.catalog import CATALOG
from tests.engine.stack import LiveStack

UP_SECONDS = 15 * 60
DEMOS = ("mnist-gloo", "cifar-gloo", "cifar-single-node", "mnist-elastic")
TRAINING_SAMPLES = {"mnist": 60_000, "cifar10": 50_000, "fashion-mnist-as-cifar10": 50_000}


@pytest.fixture(scope="module")
def demos(live_stack: LiveStack) -> Iterator[LiveStack]:
    """The stack with all demos that need no GPU, each of them trained; they go in the end."""
    settings = live_stack.scratch.checkout / "Pulumi.dev.yaml"
    before = settings.read_text()
    document = yaml.safe_load(before)
    document["config"]["slipway:jobs"] = {demo: {} for demo in DEMOS}
    settings.write_text(yaml.safe_dump(document))
    try:
        live_stack.run("make up", UP_SECONDS)
        yield live_stack
    finally:
        settings.write_text(before)
        live_stack.run("make up", UP_SECONDS)


def _events(stack: LiveStack, demo: str) -> list[dict[str, Any]]:
    """Return what all ranks of a demo wrote to their logs."""
    lines = stack.run(f"make -s logs JOB={demo}").output.splitlines()
    # Each begins with whose it is: [rank 0], [worker 0].
    texts = [line.partition("] ")[2] for line in lines if line.startswith("[")]
    return [json.loads(text) for text in texts if text.startswith("{")]


@pytest.mark.parametrize("demo", DEMOS)
def test_a_demo_reaches_its_accuracy_on_every_sample_of_every_epoch(
    demos: LiveStack, demo: str
) -> None:
    job, result = CATALOG[demo], demos.job(demo)
    assert result["state"] == "Succeeded", result
    minimum = job.min_accuracy
    if isinstance(minimum, dict):
        minimum = minimum[result["dataset"]]
    assert minimum is not None
    assert job.epochs is not None
    assert result["accuracy"] >= minimum
    assert result["samples_seen"] == job.epochs * TRAINING_SAMPLES[result["dataset"]]
    assert len(result["epoch_accuracies"]) == job.epochs
    assert result["world_size"] == job.world_size
    assert set(result["exit_codes"].values()) == {0}


@pytest.mark.parametrize("demo", DEMOS)
def test_a_demos_outputs_are_what_its_ranks_wrote_to_their_logs(
    demos: LiveStack, demo: str
) -> None:
    result, events = demos.job(demo), _events(demos, demo)
    epochs = [event for event in events if event["event"] == "epoch"]
    last = [event for event in epochs if event["epoch"] == CATALOG[demo].epochs]
    ranks = list(range(result["world_size"]))
    assert sorted(event["rank"] for event in last) == ranks
    assert {event["accuracy"] for event in last} == {result["accuracy"]}
    assert {event["loss"] for event in last} == {result["loss"]}
    assert sum(event["samples"] for event in epochs) == result["samples_seen"]
    completed = [event for event in events if event["event"] == "completed"]
    assert sorted(event["rank"] for event in completed) == ranks
    assert {event["dataset"] for event in completed} == {result["dataset"]}


def test_demos_for_gpus_are_listed_as_skipped_with_the_reason(demos: LiveStack) -> None:
    skipped = demos.outputs()["skipped"]
    assert sorted(skipped) == ["cifar-nccl", "mnist-nccl"]
    assert all("GPU" in reason for reason in skipped.values())
