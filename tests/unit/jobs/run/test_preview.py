"""What a preview shows of a run: its PyTorchJob, needs and changes, and the API server's answer."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from clusters.nodes import Capacity
from core.fields import cores
from core.handler import SECRET, UNKNOWN, Change, compare
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.manifest import manifest
from jobs.model.parts import Build, Checkpoint
from jobs.model.volumes import Script
from jobs.plan import Schedule, described, shares
from jobs.run.lifecycle import PyTorchJobHandler
from jobs.run.preview import alters_result, describe, render, validate_admission
from tests.unit.fake_api import FakeApi, served
from tests.unit.images.objects import Listener
from tests.unit.jobs.run.test_lifecycle import INPUTS, SUBMISSION
from tests.unit.jobs_declared import pods, rendered, submitted
from tests.unit.not_none import not_none

JOBS = "/apis/kubeflow.org/v1/namespaces/slipway-jobs/pytorchjobs"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as made:
        yield made


def asking(kubeconfig: object, **others: Any) -> dict[str, Any]:
    return {**copy.deepcopy(dict(INPUTS)), "kubeconfig": kubeconfig, **others}


@pytest.mark.parametrize("status", [201, 409])
def test_a_job_is_admitted_also_when_there_is_one_of_its_name(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "already exists"}, status)
    assert validate_admission(asking(api.kubeconfig)) == "the API server admits it"
    ((method, path, body),) = api.asked
    assert (method, path) == ("POST", f"{JOBS}?dryRun=All")
    assert body == yaml.safe_load(yaml.safe_dump(manifest(SUBMISSION)))
    validate_admission(asking(api.kubeconfig, image=UNKNOWN))
    assert "image: not-known-yet" in yaml.safe_dump(api.asked[1][2])


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_is_raised_in_the_servers_words(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "spec.x: Required value"}, status)
    with pytest.raises(RuntimeError, match=r"mnist-gloo would be refused: spec.x: Required value"):
        validate_admission(asking(api.kubeconfig))


@pytest.mark.parametrize("status", [404, 500])
def test_an_answer_that_is_no_refusal_is_reported_alone(status: int, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "failed calling webhook"}, status)
    reason = "as the API server could not check it: failed calling webhook"
    assert validate_admission(asking(api.kubeconfig)) == f"not validated, {reason}"


def test_a_cluster_that_does_not_answer_or_is_not_there_yet_refuses_nothing() -> None:
    with served(FakeApi()) as gone:
        pass
    for kubeconfig in ("{}", gone.kubeconfig):
        assert validate_admission(asking(kubeconfig)).startswith("not validated")
    assert "its cluster does not exist yet" in validate_admission(asking(UNKNOWN))


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


@pytest.mark.parametrize("result", ["Succeeded", "Failed"])
def test_a_success_is_not_given_up_for_a_refused_run(result: str, api: FakeApi) -> None:
    api.says("POST", JOBS, {"message": "spec.x: Required value"}, 422)
    old = {**asking(api.kubeconfig), "result": {"state": result}}
    new, handler = asking(api.kubeconfig, image="another"), PyTorchJobHandler()
    changes = handler.diff(old, new, Listener())
    assert any(change.replace for change in changes) is (result == "Failed")
    if result == "Failed":
        assert api.asked == []
        return
    refusal = r"would be refused: spec.x: Required value"
    with pytest.raises(RuntimeError, match=refusal):
        handler.update(old, new, Listener())
    with pytest.raises(RuntimeError, match=refusal):
        handler.preview(old, new, new, Listener())
    assert handler.diff(old, asking(api.kubeconfig), Listener()) == []


def test_the_needs_of_all_jobs_stand_against_what_the_cluster_has() -> None:
    capacity = Capacity(cpu=cores("1900m"), memory=4 * 2**30, gpus=0, nodes=1)
    both = [CATALOG["mnist-gloo"], CATALOG["cifar-gloo"]]
    assert Schedule(both, capacity).text() == (
        "the stack's 2 jobs need 6 pods with 3.2 cores, 5 GiB in total; the cluster has "
        "1 node with 1.9 cores, 4 GiB for jobs; the jobs to train run in this order: mnist-gloo; "
        "then cifar-gloo"
    )
    needed = described(shares(CATALOG["mnist-nccl"]))
    assert needed == "2 pods with 4 cores, 2 GiB, 2 x nvidia.com/gpu in total"
    alone = "the cluster has 1 node with 1.9 cores, 4 GiB for jobs"
    assert Schedule(both[:1], capacity).text() == alone
    assert Schedule(both[:1], None).text() == ""


MNIST = CATALOG["mnist-gloo"]
REQUIRING = TrainingJob(name="own", script="train.py", requirements="needs.txt")
OWN = TrainingJob(name="own", image="example.org/mine:1", command=("train", "--lr", "0.1"))
BUILT = TrainingJob(name="own", build=Build(context="examples/own"))
RESUMED, IN_5_MINUTES = replace(MNIST, checkpoint=Checkpoint()), Checkpoint(every="5m")
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


@pytest.mark.parametrize(
    ("job", "change", "words"),
    [
        (MNIST, {"goal": "accuracy=0.98"}, "trains again: goal unset → accuracy=0.98"),
        (MNIST, {"args": ("--x", "a b")}, 'trains again: args unset → ["--x", "a b"]'),
        (OWN, {"command": ("train", "--lr", "0.2")}, "trains again: command[2] 0.1 → 0.2"),
        (OWN, {"image": "example.org/mine:2"}, "image example.org/mine:1 → example.org/mine:2"),
        (OWN, {"env": {"A": "1"}}, "trains again: env unset → {"),
        (MNIST, {"workers": 1, "seed": 2}, "trains again: seed 1 → 2; workers 3 → 1"),
        (MNIST, {"retries": 1}, "retries 0 → 1; nothing is trained"),
        (RESUMED, {"checkpoint": IN_5_MINUTES}, 'every "600 s" → "300 s"; nothing is trained'),
    ],
)
def test_a_change_shows_both_values(job: TrainingJob, change: dict[str, Any], words: str) -> None:
    now = replace(job, **change)
    assert words in not_none(said(inputs(job), inputs(now)))


def test_only_the_fields_that_alter_the_result_are_why_it_trains_again() -> None:
    now = replace(MNIST, learning_rate=0.02, labels={"team": "vision"})
    assert said(inputs(MNIST), inputs(now)) == "trains again: learningRate 0.01 → 0.02"


@pytest.mark.parametrize(
    ("job", "image", "words"),
    [
        (MNIST, "trainer:2", "trains again: the trainer's image changed"),
        (MNIST, UNKNOWN, "trains again: the trainer's image is rebuilt"),
        (BUILT, "own:2", "trains again: the image built from examples/own changed"),
        (REQUIRING, UNKNOWN, "trains again: the image with the packages from needs.txt is rebuilt"),
    ],
)
def test_a_built_image_is_named_by_its_source(job: TrainingJob, image: object, words: str) -> None:
    assert said(inputs(job), inputs(job, image)) == words


def test_another_torch_or_script_is_named() -> None:
    line = said(inputs(MNIST), {**inputs(replace(MNIST, torch="2.6")), "image": "trainer:2"})
    assert line == "trains again: torch unset → 2.6; the trainer's image changed"
    line = said(inputs(SCRIPT), inputs(SCRIPT, content="2"))
    assert line == "trains again: script train.py changed"


def test_a_changed_input_is_named_by_its_name() -> None:
    before = {**inputs(MNIST), "artifacts": {"model": {"url": "file:///a", "sha256": "1"}}}
    other = {**before, "artifacts": {"model": {"url": "file:///a", "sha256": "2"}}}
    moved = {**before, "artifacts": {"model": {"url": "file:///b", "sha256": "1"}}}
    later = {**before, "artifacts": UNKNOWN}
    assert said(before, other) == "trains again: input model is a different file"
    assert said(before, moved) is None
    assert "if the jobs that it depends on produce different inputs" in str(said(before, later))


@pytest.mark.parametrize("image", ["trainer:1", "trainer:2"])
def test_a_failure_is_why_it_trains_again(image: str) -> None:
    failed = {"state": "Failed", "reason": "rank 1 exited with code 3"}
    state = {**inputs(MNIST), "result": failed}
    changes = [Change("result", replace=True, drift=True)]
    line = not_none(describe(changes, state, inputs(MNIST, image)))
    assert line.endswith("the last run ended Failed: rank 1 exited with code 3")
    assert ("the trainer's image changed; " in line) == (image == "trainer:2")


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
    ],
)
def test_it_says_whether_a_job_with_checkpoints_resumes(
    state: str, job: TrainingJob, image: object, words: str
) -> None:
    before = {**inputs(RESUMED), "result": {"state": state, "reason": "why"}}
    now = inputs(job, image)
    changes = alters_result(compare(before, now), before, now)
    failed = [Change("result", replace=True, drift=True)] if state == "Failed" else []
    assert words in not_none(describe([*changes, *failed], before, now))
