"""A preview shows a run's PyTorchJob, needs and changes, and the API server's answer."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from core.handler import SECRET, UNKNOWN, Change, compare
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, Checkpoint
from jobs.model.volumes import Script
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.preview import alters_result, describe, render, validate_admission
from tests.unit.fake_api import FakeApi, served
from tests.unit.images.objects import Listener
from tests.unit.jobs.run.test_lifecycle import changed
from tests.unit.jobs_declared import pods, rendered, submitted
from tests.unit.not_none import not_none

JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as made:
        yield made


NOT_CHECKED = "not validated: the API server responded: failed calling webhook"


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (201, "", "the API server admits it"),
        (409, "already exists", "the API server admits it"),
        (404, "failed calling webhook", NOT_CHECKED),
        (500, "failed calling webhook", NOT_CHECKED),
    ],
)
def test_only_a_refusal_is_an_error(status: int, message: str, words: str, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": message}, status)
    assert validate_admission(changed("kubeconfig", api.kubeconfig)) == words
    assert validate_admission({**changed("kubeconfig", api.kubeconfig), "image": UNKNOWN}) == words
    (method, path, _), (_, _, body) = api.asked
    assert (method, path) == ("POST", f"{JOBS}?dryRun=All")
    assert "image: not-known-yet" in yaml.safe_dump(body)


def test_a_cluster_that_does_not_answer_or_is_not_there_yet_refuses_nothing() -> None:
    with served(FakeApi()) as gone:
        pass
    for kubeconfig in ("{}", gone.kubeconfig):
        assert validate_admission(changed("kubeconfig", kubeconfig)).startswith("not validated")
    assert "its cluster does not exist yet" in validate_admission(changed("kubeconfig", UNKNOWN))


def test_a_preview_shows_the_manifest_without_secrets() -> None:
    complete = rendered(CATALOG["mnist-gloo"])
    shown = render(complete)
    assert yaml.safe_load(shown) == yaml.safe_load(yaml.safe_dump(complete))
    first = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: mnist"
    assert shown.startswith(first)
    unknown = rendered(CATALOG["mnist-gloo"], UNKNOWN)
    (container,) = pods(unknown)["Master"]["containers"]
    container["env"] = [{"name": "TOKEN", "value": SECRET}]
    assert "image: <known later>" in render(unknown)
    assert "value: <secret>" in render(unknown)


@pytest.mark.parametrize("status", [400, 422])
def test_a_success_is_not_given_up_for_a_refused_run(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "spec.x: Required value"}, status)
    state, handler = changed("kubeconfig", api.kubeconfig), PyTorchJobHandler()
    failed, succeeded = ({**state, "result": {"state": each}} for each in ("Failed", "Succeeded"))
    new, row = {**state, "image": "another"}, Listener()
    assert any(change.replace for change in handler.diff(failed, new, row))
    assert api.asked == []
    assert not any(change.replace for change in handler.diff(succeeded, new, row))
    refusal = r"mnist-gloo would be refused: spec.x: Required value"
    with pytest.raises(RuntimeError, match=refusal):
        handler.update(succeeded, new, row)
    with pytest.raises(RuntimeError, match=refusal):
        handler.preview(succeeded, new, new, row)
    assert handler.diff(succeeded, state, row) == []


MNIST = CATALOG["mnist-gloo"]
REQUIRING = TrainingJob(name="own", script="train.py", requirements="needs.txt")
OWN = TrainingJob(name="own", image="example.org/mine:1", command=("train", "--lr", "0.1"))
BUILT = TrainingJob(name="own", build=Build(context="examples/own"))
RESUMED, IN_5_MINUTES = replace(MNIST, checkpoint=Checkpoint()), Checkpoint(every="5m")
NEWER = {"torch": "2.6"}
ALONE = replace(RESUMED, workers=1)
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


AGAIN, EVERY = "trains again: ", 'every "600 s" → "300 s"'
TRAINERS, PACKAGES = "the trainer's image", "the image with the packages from needs.txt"


@pytest.mark.parametrize(
    ("job", "change", "other", "words"),
    [
        (MNIST, {"goal": "accuracy=0.98"}, {}, f"{AGAIN}goal unset → accuracy=0.98"),
        (MNIST, {"args": ("--x", "a b")}, {}, AGAIN + 'args unset → ["--x", "a b"]'),
        (OWN, {"command": ("train", "--lr", "0.2")}, {}, f"{AGAIN}command[2] 0.1 → 0.2"),
        (OWN, {"image": "b:2"}, {}, f"{AGAIN}image example.org/mine:1 → b:2"),
        (MNIST, {"workers": 1, "seed": 2}, {}, f"{AGAIN}seed 1 → 2; workers 3 → 1"),
        (MNIST, {"seed": 2, "labels": {"team": "vision"}}, {}, f"{AGAIN}seed 1 → 2"),
        (MNIST, {"retries": 1}, {}, "retries 0 → 1; nothing is trained"),
        (RESUMED, {"checkpoint": IN_5_MINUTES}, {}, f"checkpoint.{EVERY}; nothing is trained"),
        # A file or an image is named by its source.
        (MNIST, {}, {"image": "trainer:2"}, f"{AGAIN}{TRAINERS} changed"),
        (MNIST, {}, {"image": UNKNOWN}, f"{AGAIN}{TRAINERS} is rebuilt"),
        (MNIST, NEWER, {"image": UNKNOWN}, f"{AGAIN}torch unset → 2.6; {TRAINERS} is rebuilt"),
        (BUILT, {}, {"image": "own:2"}, f"{AGAIN}the image built from examples/own changed"),
        (REQUIRING, {}, {"image": UNKNOWN}, f"{AGAIN}{PACKAGES} is rebuilt"),
        (SCRIPT, {}, {"content": "2"}, f"{AGAIN}script train.py changed"),
    ],
)
def test_a_change_shows_both_values_or_what_it_comes_from(
    job: TrainingJob, change: dict[str, Any], other: dict[str, Any], words: str
) -> None:
    assert said(inputs(job), inputs(replace(job, **change), **other)) == words


def test_a_changed_input_is_named_by_its_name() -> None:
    before = {**inputs(MNIST), "artifacts": {"model": {"url": "file:///a", "sha256": "1"}}}
    other = {**before, "artifacts": {"model": {"url": "file:///a", "sha256": "2"}}}
    moved = {**before, "artifacts": {"model": {"url": "file:///b", "sha256": "1"}}}
    later = {**before, "artifacts": UNKNOWN}
    assert said(before, other) == "trains again: input model is a different file"
    assert said(before, moved) is None
    assert "if the jobs that it depends on produce different inputs" in str(said(before, later))


def test_a_line_stays_short() -> None:
    now = replace(MNIST, workers=1, seed=2, epochs=3, momentum=0.5, batch_size=1, learning_rate=1.0)
    assert not_none(said(inputs(MNIST), inputs(now))).endswith("; and 1 more")
    before, after = (replace(OWN, command=("train", "x" * 99 + last)) for last in "12")
    assert said(inputs(before), inputs(after)) == "trains again: command[1] changed"


@pytest.mark.parametrize(
    ("state", "job", "image", "words"),
    [
        ("Failed", RESUMED, "trainer:1", "; it resumes from its newest checkpoint, if there is"),
        ("Failed", ALONE, "trainer:1", "3 → 1; the last run ended Failed: why; it"),
        ("Failed", replace(RESUMED, learning_rate=0.1), "trainer:1", "; it starts over"),
        ("Failed", RESUMED, UNKNOWN, "; it starts over"),
        ("Succeeded", ALONE, "trainer:1", "; it starts over, unless an interrupted run left a"),
        ("Failed", MNIST, "trainer:1", "the last run ended Failed: why"),
        ("Failed", MNIST, "trainer:2", "image changed; the last run ended Failed: why"),
    ],
)
def test_a_failure_is_why_it_trains_again_and_with_checkpoints_it_may_resume(
    state: str, job: TrainingJob, image: object, words: str
) -> None:
    first = MNIST if job is MNIST else RESUMED
    before = {**inputs(first), "result": {"state": state, "reason": "why"}}
    now = inputs(job, image)
    changes = alters_result(compare(before, now), before, now)
    failed = [Change("result", replace=True, drift=True)] if state == "Failed" else []
    assert words in not_none(describe([*changes, *failed], before, now))
