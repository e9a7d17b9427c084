"""What a preview says of a change, in the words of the declaration."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from core.handler import UNKNOWN, Change, compare
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, Checkpoint
from jobs.model.volumes import Script
from jobs.run.preview import alters_result, describe
from tests.unit.jobs_declared import submitted
from tests.unit.not_none import not_none

MNIST = CATALOG["mnist-gloo"]
OWN = TrainingJob(name="own", image="example.org/mine:1", command=("train", "--lr", "0.1"))
BUILT = TrainingJob(name="own", build=Build(context="examples/own"))
SCRIPT = TrainingJob(name="own", script="train.py")


def inputs(job: TrainingJob, image: object = "trainer:1", content: str = "1") -> dict[str, Any]:
    """Return what the program asks for."""
    script = Script("own", "train.py", {"train.py": content.encode()}).mounted
    submission = submitted(job, image, script=None if job.script is None else script)
    return {"kubeconfig": "kubeconfig", **submission.inputs()}


def said(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the words for a change after a success."""
    state = {**before, "result": {"state": "Succeeded"}}
    return describe(alters_result(compare(state, now), state, now), state, now)


@pytest.mark.parametrize(
    ("job", "change", "words"),
    [
        (MNIST, {"learning_rate": 0.02}, "trains again: learningRate 0.01 → 0.02"),
        (MNIST, {"goal": "accuracy=0.98"}, "trains again: goal unset → accuracy=0.98"),
        (MNIST, {"args": ("--x", "a b")}, 'trains again: args unset → ["--x", "a b"]'),
        (OWN, {"command": ("train", "--lr", "0.2")}, "trains again: command[2] 0.1 → 0.2"),
        (OWN, {"image": "example.org/mine:2"}, "image example.org/mine:1 → example.org/mine:2"),
        (OWN, {"env": {"A": "1"}}, "trains again: env unset → {"),
        (MNIST, {"workers": 1, "seed": 2}, "trains again: seed 1 → 2; workers 3 → 1"),
        (MNIST, {"labels": {"team": "vision"}}, "; nothing is trained"),
        (MNIST, {"retries": 1}, "retries 0 → 1; nothing is trained"),
        (
            replace(MNIST, gpus=1),
            {"min_gpu_utilization": 20},
            "minGpuUtilization unset → 20; nothing is trained",
        ),
        (MNIST, {"timeout": 60}, "timeout 86400 → 60; nothing is trained"),
        (MNIST, {"priority_class": "high"}, "priorityClass unset → high; nothing is trained"),
    ],
)
def test_a_change_shows_both_values(job: TrainingJob, change: dict[str, Any], words: str) -> None:
    now = replace(job, **change)
    assert words in not_none(said(inputs(job), inputs(now)))


def test_only_the_fields_that_alter_the_result_are_why_it_trains_again() -> None:
    now = replace(MNIST, learning_rate=0.02, labels={"team": "vision"})
    assert said(inputs(MNIST), inputs(now)) == "trains again: learningRate 0.01 → 0.02"


def test_another_torch_is_shown_beside_the_changed_image() -> None:
    line = said(inputs(MNIST), {**inputs(replace(MNIST, torch="2.6")), "image": "trainer:2"})
    assert line == "trains again: torch unset → 2.6; the trainer's image changed"


@pytest.mark.parametrize(
    ("job", "image", "words"),
    [
        (MNIST, "trainer:2", "trains again: the trainer's image changed"),
        (MNIST, UNKNOWN, "trains again: the trainer's image is rebuilt"),
        (BUILT, "own:2", "trains again: the image built from examples/own changed"),
        (
            replace(SCRIPT, requirements="needs.txt"),
            UNKNOWN,
            "trains again: the image with the packages from needs.txt is rebuilt",
        ),
    ],
)
def test_a_built_image_is_named_by_its_source(job: TrainingJob, image: object, words: str) -> None:
    assert said(inputs(job), inputs(job, image)) == words


def test_a_changed_script_is_named_by_its_path() -> None:
    assert (
        said(inputs(SCRIPT), inputs(SCRIPT, content="2")) == "trains again: script train.py changed"
    )


def test_a_changed_input_is_named_by_its_name() -> None:
    before = {**inputs(MNIST), "artifacts": {"model": {"url": "file:///a", "sha256": "1"}}}
    other = {**before, "artifacts": {"model": {"url": "file:///a", "sha256": "2"}}}
    moved = {**before, "artifacts": {"model": {"url": "file:///b", "sha256": "1"}}}
    later = {**before, "artifacts": UNKNOWN}
    assert said(before, other) == "trains again: input model is a different file"
    assert said(before, moved) is None
    assert "if the jobs that it depends on produce different inputs" in str(said(before, later))


def test_a_gate_alone_is_no_change_of_the_run() -> None:
    now = replace(MNIST, min_accuracy=0.5, max_duration=10.0)
    assert compare(inputs(MNIST), inputs(now)) == []


@pytest.mark.parametrize("image", ["trainer:1", "trainer:2"])
def test_a_failure_is_why_it_trains_again(image: str) -> None:
    failed = {"state": "Failed", "reason": "rank 1 exited with code 3"}
    state = {**inputs(MNIST), "result": failed}
    line = describe([Change("result", replace=True, drift=True)], state, inputs(MNIST, image))
    assert line is not None
    assert line.endswith("the last run ended Failed: rank 1 exited with code 3")
    assert ("the trainer's image changed; " in line) == (image == "trainer:2")


def test_many_changes_are_cut_short() -> None:
    now = replace(MNIST, workers=1, seed=2, epochs=3, momentum=0.5, batch_size=1, learning_rate=1.0)
    assert not_none(said(inputs(MNIST), inputs(now))).endswith("; and 1 more")


def test_long_texts_that_look_the_same_are_only_called_changed() -> None:
    now = replace(OWN, command=("train", "--lr", "x" * 99 + "2"))
    before = replace(OWN, command=("train", "--lr", "x" * 99 + "1"))
    assert said(inputs(before), inputs(now)) == "trains again: command[2] changed"


RESUMED = replace(MNIST, checkpoint=Checkpoint())


@pytest.mark.parametrize(
    ("state", "job", "image", "words"),
    [
        ("Failed", RESUMED, "trainer:1", "; it resumes from its newest checkpoint, if there is"),
        (
            "Failed",
            replace(RESUMED, workers=1),
            "trainer:1",
            "3 → 1; the last run ended Failed: why; it",
        ),
        ("Failed", replace(RESUMED, learning_rate=0.1), "trainer:1", "; it starts over"),
        ("Failed", RESUMED, UNKNOWN, "; it starts over"),
        (
            "Succeeded",
            replace(RESUMED, workers=1),
            "trainer:1",
            "; it starts over, unless an interrupted run left a checkpoint",
        ),
    ],
)
def test_it_says_whether_a_job_with_checkpoints_resumes(
    state: str, job: TrainingJob, image: object, words: str
) -> None:
    """A preview says whether a job resumes or begins anew, by what a checkpoint belongs to."""
    before = {**inputs(RESUMED), "result": {"state": state, "reason": "why"}}
    now = inputs(job, image)
    changes = alters_result(compare(before, now), before, now)
    failed = [Change("result", replace=True, drift=True)] if state == "Failed" else []
    assert words in not_none(describe([*changes, *failed], before, now))


def test_another_interval_trains_nothing() -> None:
    now = replace(MNIST, checkpoint=Checkpoint(every="10m"))
    assert said(inputs(RESUMED), inputs(now)) is None, "10m is what it was"
    now = replace(MNIST, checkpoint=Checkpoint(every="5m"))
    assert said(inputs(RESUMED), inputs(now)) == (
        'checkpoint.every "600 s" → "300 s"; nothing is trained'
    )
