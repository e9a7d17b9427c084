"""Retries: a job that its cluster takes away is submitted anew, and its attempts are kept."""

import json
from collections.abc import Iterator

import pytest

from clusters.cluster import JOBS
from core.manifests import KEPT_CLAIM
from jobs.model import volumes
from tests.engine.job_programs import RESUMING, SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


def test_an_evicted_job_is_resubmitted_and_its_attempt_is_kept(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    with runs.training(job_name, **python(trainer, SLEEPING, "12", retries=2)) as going:
        jobs.await_all_running(job_name, pods=2)
        (first,) = jobs.uids(job_name)
        jobs.evict(f"{job_name}-worker-0")
        assert going.end().error is None, going.text
    result = runs.output(job_name)
    assert result["state"] == "Succeeded"
    (attempt,) = result["attempts"]
    assert (attempt["number"], attempt["state"]) == (1, "Failed")
    assert f"{job_name}-worker-0" in attempt["reason"]
    assert "EvictionByEvictionAPI" in attempt["reason"]
    assert attempt["run_id"] != result["run_id"]
    assert jobs.uids(job_name) != [first]
    assert jobs.attempts(job_name) == ["2"]
    assert "attempt 1 of 3 was lost" in going.text
    assert "attempt 2 of 3: 2 ranks" in going.text


@pytest.fixture
def kept_volume(jobs: Jobs) -> Iterator[None]:
    """The stack's volume for kept files, which its runs' handlers do not make."""
    claim = volumes.claim(KEPT_CLAIM, JOBS, "1Gi")
    jobs.kubectl("apply", "--filename", "-", given=json.dumps(claim))
    yield
    jobs.kubectl("delete", "--filename", "-", "--wait=false", given=json.dumps(claim))


@pytest.mark.usefixtures("kept_volume")
def test_a_job_that_fails_resumes_in_a_retry_and_in_the_next_up(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """It failed by itself, which `retryOn` names, and resumes from its checkpoint."""
    command = ["python3", "-m", "slipway_trainer.launch", "--", "-c", RESUMING]
    declared = python(trainer, "", workers=0, memory="640Mi") | {"command": command, "args": []}
    declared |= {"retries": 1, "retryOn": ["ownFailure"], "checkpoint": {"every": "1 step"}}
    declared |= {"restartPolicy": "Never"}  # or the kubelet may be quicker than the operator
    said = runs.train_in_vain(job_name, **declared)
    assert "attempt 1 of 2 failed: rank 0" in said
    assert len(runs.output(job_name)["attempts"]) == 1

    attempt = runs.train(job_name, **declared)
    assert "it resumes from its newest checkpoint" in attempt.text
    result = runs.output(job_name)
    assert result["metrics"] == {"began_at": 4, "attempts": 3}
    assert "attempts" not in result
