"""What is trained once is kept: what changes in place, what trains again, and how it is told."""

from typing import Any

from tests.engine.job_programs import REFUSAL, REFUSED, SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


def test_what_alters_no_result_changes_in_place_and_trains_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """The same declaration trains nothing, nor do labels or priorities."""
    declared = python(trainer, SLEEPING, "0")
    before: dict[str, Any] = {"labels": {"team": "vision", "example.org/owner": "ann"}}
    runs.train(job_name, **declared, **before)
    result, uids = runs.output(job_name), jobs.uids(job_name)
    again = runs.train(job_name, **declared, **before)
    assert (again.steps, again.text) == ({}, "")

    marks = {"labels": {"team": "speech"}, "annotations": {"note": "kept for the paper"}}
    changed = runs.train(job_name, **declared, **marks)
    assert changed.steps == {"PyTorchJob": "update"}
    assert "labels.team vision → speech" in changed.text
    assert "; nothing is trained" in changed.text
    (job,) = jobs.items("pytorchjobs", job_name)
    pods = jobs.items("pods", job_name)
    assert len(pods) == 2
    for metadata in [each["metadata"] for each in (job, *_templates(job), *pods)]:
        assert metadata["labels"]["team"] == "speech"
        assert "example.org/owner" not in metadata["labels"]
        assert metadata["annotations"]["note"] == "kept for the paper"
    assert runs.train(job_name, **declared, **marks).steps == {}

    policy = {"ttlSecondsAfterFinished": 3600, "priorityClass": "system-node-critical"}
    changed = runs.train(job_name, **declared, **policy, **marks)
    assert changed.steps == {"PyTorchJob": "update"}
    assert "priorityClass unset → system-node-critical" in changed.text
    (job,) = jobs.items("pytorchjobs", job_name)
    assert job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 3600
    for template in _templates(job):
        assert template["spec"]["priorityClassName"] == "system-node-critical"

    assert runs.train(job_name, **declared, **marks).steps == {"PyTorchJob": "update"}
    (job,) = jobs.items("pytorchjobs", job_name)
    assert "ttlSecondsAfterFinished" not in job["spec"]["runPolicy"]
    assert not any("priorityClassName" in each["spec"] for each in _templates(job))

    said = runs.train_in_vain(job_name, **declared, labels=REFUSED)
    assert f"PyTorchJob slipway-jobs/{job_name} was not changed" in said
    assert REFUSAL in said
    assert "Nothing was trained" in said

    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)


def _templates(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["template"] for each in job["spec"]["pytorchReplicaSpecs"].values()]
