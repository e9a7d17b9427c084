"""What is trained once is kept: what changes in place, what trains again, and how it is told."""

import pytest

from tests.engine.awaiting import await_true
from tests.engine.job_programs import FAILING, REFUSAL, REFUSED, SLEEPING, SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_COLORS = {"team": "vision", "example.org/owner": "ann"}
_SUMMARY = '{"accuracy": 0.5}'


def test_the_same_image_spec_and_data_train_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """The same image, spec and data train nothing."""
    declared = python(trainer, SLEEPING, "0")
    runs.train(job_name, **declared)
    result, (uid,) = runs.output(job_name), jobs.uids(job_name)
    again = runs.train(job_name, **declared)
    assert (again.steps, again.text) == ({}, "")
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, [uid])


def test_labels_and_annotations_reach_the_job_and_its_pods_and_train_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    runs.train(job_name, **declared, labels=_COLORS)
    result, (uid,) = runs.output(job_name), jobs.uids(job_name)

    now = {"labels": {"team": "speech"}, "annotations": {"note": "kept for the paper"}}
    changed = runs.train(job_name, **declared, **now)
    assert changed.steps == {"PyTorchJob": "update"}
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
    assert runs.output(job_name) == result
    assert runs.train(job_name, **declared, **now).steps == {}


def test_the_run_policy_priority_and_what_is_of_the_wait_change_in_place(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "0")
    runs.train(job_name, **declared)
    (uid,) = jobs.uids(job_name)
    now = {
        **declared,
        "timeout": 610,
        "startTimeout": 100,
        "retries": 2,
        "onCancel": "delete",
        "ttlSecondsAfterFinished": 3600,
        "priorityClass": "system-node-critical",
    }
    changed = runs.train(job_name, **now)
    assert changed.steps == {"PyTorchJob": "update"}
    for said in ("timeout 600 → 610", "retries 0 → 2", "onCancel keep → delete"):
        assert said in changed.text
    assert "priorityClass unset → system-node-critical" in changed.text
    (job,) = jobs.items("pytorchjobs", job_name)
    assert job["metadata"]["uid"] == uid
    assert job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 3600
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        assert replicas["template"]["spec"]["priorityClassName"] == "system-node-critical"

    assert runs.train(job_name, **declared).steps == {"PyTorchJob": "update"}
    (job,) = jobs.items("pytorchjobs", job_name)
    assert "ttlSecondsAfterFinished" not in job["spec"]["runPolicy"]
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        assert "priorityClassName" not in replicas["template"]["spec"]


def test_a_refused_update_in_place_is_explained(job_name: str, runs: Runs, trainer: str) -> None:
    """A PyTorchJob's immutable fields never surface as an error."""
    declared = python(trainer, SLEEPING, "0")
    runs.train(job_name, **declared)
    result = runs.output(job_name)
    said = runs.train_in_vain(job_name, **declared, labels=REFUSED)
    assert f"PyTorchJob slipway-jobs/{job_name} was not changed" in said
    assert REFUSAL in said
    assert "Nothing was trained" in said
    assert runs.train(job_name, **declared).steps == {}
    assert runs.output(job_name) == result


def test_after_a_failure_it_trains_again_and_says_why(
    job_name: str, runs: Runs, trainer: str
) -> None:
    runs.train_in_vain(job_name, **python(trainer, FAILING))
    again = runs.train_in_vain(job_name, **python(trainer, FAILING))
    assert "trains again: the last run ended Failed: rank 1" in again
    fixed = runs.train(job_name, **python(trainer, SLEEPING, "0"))
    assert "the last run ended Failed: rank 1" in fixed.text
    assert runs.output(job_name)["state"] == "Succeeded"


def test_a_job_whose_pods_were_cleaned_away_trains_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SUMMARY, _SUMMARY, "0", workers=0)
    runs.train(job_name, **declared)
    result, uids = runs.output(job_name), jobs.uids(job_name)
    jobs.kubectl("delete", "pods", "-l", f"training.kubeflow.org/job-name={job_name}")
    await_true(lambda: jobs.items("pods", job_name) == [])
    assert runs.train(job_name, **declared).steps == {}
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)


@pytest.mark.long
def test_a_detached_job_gets_the_labels_of_a_later_up(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A label, TTL or priority that changed is applied in place."""
    declared = python(trainer, SLEEPING, "8")
    with runs.training(job_name, **declared) as going:
        uid = jobs.await_running(job_name)
    assert "stopped waiting" in going.text
    runs.train(job_name, **declared, labels=_COLORS)
    assert jobs.uids(job_name) == [uid]
    for item in (*jobs.items("pytorchjobs", job_name), *jobs.items("pods", job_name)):
        assert _COLORS.items() <= item["metadata"]["labels"].items()
