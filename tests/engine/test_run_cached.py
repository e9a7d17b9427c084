"""What is trained once is kept: what changes in place, what trains again, and how it is told."""

import json
from typing import Any

import pytest

from scripts.stack.rerun import urns
from tests.engine.awaiting import await_true
from tests.engine.job_programs import FAILING, SLEEPING, SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack
from tests.engine.standin_stack import Outcome

_COLORS = {"team": "vision", "example.org/owner": "ann"}


def test_the_same_image_spec_and_data_train_nothing(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared)
    result, (uid,) = job_stack.output(job_name), jobs.uids(job_name)
    again = job_stack.train(job_name, **declared)
    assert again.changes == {}
    assert "trains again" not in again.text
    assert (job_stack.output(job_name), jobs.uids(job_name)) == (result, [uid])


def test_labels_and_annotations_reach_the_job_and_its_pods_and_train_nothing(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared, labels=_COLORS)
    result, (uid,) = job_stack.output(job_name), jobs.uids(job_name)

    now = {"labels": {"team": "speech"}, "annotations": {"note": "kept for the paper"}}
    changed = job_stack.train(job_name, **declared, **now)
    assert changed.changes == {"update": 1}
    assert "labels.team vision → speech" in changed.text
    assert "; nothing is trained" in changed.text
    assert "trains again" not in changed.text

    (job,) = jobs.items("pytorchjobs", job_name)
    assert job["metadata"]["uid"] == uid
    pods = jobs.items("pods", job_name)
    assert len(pods) == 2
    templates = [each["template"] for each in job["spec"]["pytorchReplicaSpecs"].values()]
    for metadata in [each["metadata"] for each in (job, *templates, *pods)]:
        assert metadata["labels"]["team"] == "speech"
        assert "example.org/owner" not in metadata["labels"]
        assert metadata["annotations"]["note"] == "kept for the paper"
    assert job_stack.output(job_name) == result
    assert job_stack.train(job_name, **declared, **now).changes == {}


def test_the_run_policy_priority_and_what_is_of_the_wait_change_in_place(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared)
    (uid,) = jobs.uids(job_name)
    now = {
        **declared,
        "timeout": 130,
        "startTimeout": 100,
        "retries": 2,
        "onCancel": "delete",
        "ttlSecondsAfterFinished": 3600,
        "priorityClass": "system-node-critical",
    }
    changed = job_stack.train(job_name, **now)
    assert changed.changes == {"update": 1}
    for said in ("timeout 120 → 130", "retries 0 → 2", "onCancel keep → delete"):
        assert said in changed.text
    assert "priorityClass unset → system-node-critical" in changed.text
    (job,) = jobs.items("pytorchjobs", job_name)
    assert job["metadata"]["uid"] == uid
    assert job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 3600
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        assert replicas["template"]["spec"]["priorityClassName"] == "system-node-critical"

    assert job_stack.train(job_name, **declared).changes == {"update": 1}
    (job,) = jobs.items("pytorchjobs", job_name)
    assert "ttlSecondsAfterFinished" not in job["spec"]["runPolicy"]
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        assert "priorityClassName" not in replicas["template"]["spec"]


def test_a_change_in_place_that_is_refused_is_told_in_plain_words(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared)
    result = job_stack.output(job_name)
    too_long = {"unchecked": {"labels": {"team": "x" * 64}}}
    said = job_stack.train_in_vain(job_name, **declared, **too_long)
    assert f"PyTorchJob slipway-jobs/{job_name} was not changed" in said
    assert "must be no more than 63" in said
    assert "Nothing was trained" in said
    assert "Traceback" not in said
    assert job_stack.train(job_name, **declared).changes == {}
    assert job_stack.output(job_name) == result


def test_another_learning_rate_trains_again_and_preview_and_up_say_so_in_words(
    job_name: str, job_stack: JobStack, jobs: Jobs
) -> None:
    demo = {"demo": "mnist-gloo", "args": ["--limit-train", "300", "--limit-test", "100"]}
    small = {"workers": 1, "cpu": "200m", "memory": "512Mi", "min_accuracy": None}
    job_stack.train(job_name, **demo, unchecked=small)
    before, first = jobs.uids(job_name), job_stack.output(job_name)
    faster = {job_name: {**demo, "unchecked": {**small, "learning_rate": 0.02}}}
    words = "trains again: learningRate 0.01 → 0.02"

    preview = job_stack.preview("", **faster)
    assert _told(preview, job_name).count(words) == 1
    assert preview.changes["replace"] >= 1
    assert any(path.startswith("manifest.spec.") for path in preview.diff(job_name)), preview
    assert jobs.uids(job_name) == before

    up = job_stack.up("", **faster)
    assert _told(up, job_name).count(words) == 1
    assert jobs.uids(job_name) != before
    assert job_stack.output(job_name)["run_id"] != first["run_id"]


def _told(outcome: Outcome, job_name: str) -> list[str]:
    """Return the lines that stay which the engine printed for a run, without their line ends."""
    events = [event["diagnosticEvent"] for event in outcome.events if "diagnosticEvent" in event]
    return [
        str(event["message"]).strip()
        for event in events
        if event.get("urn", "").endswith(f"PyTorchJob::{job_name}") and not event.get("ephemeral")
    ]


def test_another_content_of_the_script_trains_again_and_the_preview_says_so(
    job_name: str, job_stack: JobStack
) -> None:
    script = job_stack.directory / "train.py"
    script.write_text("print('one')\n")
    declared = python("", "", script=str(script), workers=0)
    del declared["image"], declared["command"], declared["args"]
    job_stack.train(job_name, **declared)
    script.write_text("print('two')\n")
    preview = job_stack.preview("", **{job_name: declared})
    assert f"trains again: script {script} changed" in preview.text
    assert preview.changes["replace"] >= 1


@pytest.mark.long
def test_a_state_that_knows_no_declaration_is_taken_over_without_training(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    job_stack.train(job_name, **declared)
    uids = jobs.uids(job_name)
    _forget(job_stack, "declared", "retries", "onCancel")
    up = job_stack.train(job_name, **declared)
    assert up.changes == {"update": 1}
    assert "train" not in up.text.replace("trainer", "")
    assert jobs.uids(job_name) == uids
    _forget(job_stack, "declared")
    preview = job_stack.preview("", **{job_name: python(trainer, SLEEPING, "0.5")})
    assert "trains again: pytorchReplicaSpecs" not in preview.text
    assert "trains again: containers[0].args[0] 0 → 0.5" in preview.text


def _forget(job_stack: JobStack, *inputs: str) -> None:
    """Make the state as if it had been saved before there were these inputs."""
    state = job_stack.export()
    for resource in state["deployment"]["resources"]:
        if resource["type"] == "slipway:jobs:PyTorchJob":
            for name in inputs:
                del resource["inputs"][name], resource["outputs"][name]
    file = job_stack.directory / "forgotten.json"
    file.write_text(json.dumps(state))
    outcome = job_stack.pulumi("stack", "import", "--file", str(file))
    assert outcome.code == 0, str(outcome)


def test_after_a_failure_up_trains_again_and_says_why(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    assert "trains again:" not in job_stack.refresh().text
    again = job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    assert "trains again: the last run ended Failed: rank 1" in again
    mended = job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    assert "the last run ended Failed: rank 1" in mended.text
    assert job_stack.output(job_name)["state"] == "Succeeded"


@pytest.mark.parametrize(
    "gone", ["the job by its TTL", pytest.param("its pods", marks=pytest.mark.long)]
)
def test_what_was_cleaned_away_trains_nothing_after_up_and_refresh(
    gone: str, job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SUMMARY, '{"accuracy": 0.5}', "0", workers=0)
    job_stack.train(job_name, **declared)
    result = job_stack.output(job_name)
    if gone == "its pods":
        jobs.kubectl("delete", "pods", "-l", f"training.kubeflow.org/job-name={job_name}")
        await_true(lambda: jobs.items("pods", job_name) == [])
    else:
        _end_of_life(jobs, job_name)
        # Its pods go after it, by the garbage collector.
        await_true(lambda: _identities(jobs, job_name) == [])
    left = _identities(jobs, job_name)

    assert job_stack.train(job_name, **declared).changes == {}
    job_stack.refresh()
    assert job_stack.output(job_name) == result
    assert job_stack.train(job_name, **declared).changes == {}
    assert job_stack.output(job_name) == result
    assert _identities(jobs, job_name) == left


def _end_of_life(jobs: Jobs, job_name: str) -> None:
    """Have the operator remove a job whose end is more than a second ago."""
    policy = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}}
    patch = ("--type", "merge", "--patch", json.dumps(policy))
    jobs.kubectl("patch", "pytorchjob", job_name, *patch)


def _identities(jobs: Jobs, job_name: str) -> list[Any]:
    kinds = ("pytorchjobs", "pods")
    return [item["metadata"]["uid"] for kind in kinds for item in jobs.items(kind, job_name)]


def test_a_job_that_goes_on_after_a_kill_gets_the_labels_that_were_asked_for_since(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "8")
    uid = job_stack.kill_while_running(jobs, job_name, **declared)
    job_stack.train(job_name, **declared, labels=_COLORS)
    assert jobs.uids(job_name) == [uid]
    for item in (*jobs.items("pytorchjobs", job_name), *jobs.items("pods", job_name)):
        assert _COLORS.items() <= item["metadata"]["labels"].items()


def test_a_rerun_on_purpose_trains_one_job_alone_though_nothing_has_changed(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    other = f"{job_name}-b"
    declared = python(trainer, SUMMARY, '{"accuracy": 0.5}', "0", workers=0)
    both = {job_name: declared, other: declared}
    job_stack.up("", **both)
    results = {name: job_stack.output(name) for name in both}
    before = {name: jobs.uids(name) for name in both}

    urn = urns(job_stack.export())[job_name]
    again = job_stack.run("up", "--replace", urn, program="", **both)
    replaced = {name for name in both if _is_replaced(again, "PyTorchJob", name)}
    judged = {name for name in both if _is_replaced(again, "Gate", name)}
    assert (replaced, judged) == ({job_name}, {job_name}), again.text
    assert jobs.uids(job_name) != before[job_name]
    assert job_stack.output(job_name)["run_id"] != results[job_name]["run_id"]
    assert jobs.uids(other) == before[other]
    assert job_stack.output(other) == results[other]


def _is_replaced(outcome: Outcome, kind: str, name: str) -> bool:
    steps = [event.get("resourcePreEvent", {}).get("metadata", {}) for event in outcome.events]
    of_it = [step["op"] for step in steps if step.get("urn", "").endswith(f"{kind}::{name}")]
    return any("replace" in operation for operation in of_it)


def test_make_rerun_trains_a_demo_again_and_knows_which_there_are(live_stack: LiveStack) -> None:
    before, uids = live_stack.job("mnist-gloo"), live_stack.uids()
    unknown = live_stack.attempt("make rerun JOB=mnist-glo")
    assert unknown.code != 0
    assert "Did you mean mnist-gloo?" in unknown.errors
    assert live_stack.uids() == uids
    live_stack.run("make rerun JOB=mnist-gloo")
    after = live_stack.job("mnist-gloo")
    assert after["state"] == "Succeeded"
    assert after["run_id"] != before["run_id"]
