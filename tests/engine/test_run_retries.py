"""The attempts at a run outlive the CLI; when there are several is in tests/runs."""

import signal

import pytest

from tests.engine.awaiting import await_true
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs, JobStack


@pytest.mark.long
def test_attempts_outlive_a_kill_between_two_of_them(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "15", retries=2)
    with job_stack.training(job_name, **declared) as up:
        jobs.await_all_running(job_name, pods=2)
        (first,) = jobs.uids(job_name)
        jobs.evict(f"{job_name}-worker-0")
        await_true(lambda: "attempt 1 of 3 was lost" in job_stack.log)
        up.send_signal(signal.SIGKILL)
        up.wait()
    job_stack.unlock()
    job_stack.train(job_name, **declared)
    result = job_stack.output(job_name)
    assert result["state"] == "Succeeded"
    assert [attempt["number"] for attempt in result["attempts"]] == [1]
    assert jobs.attempts(job_name) == ["2"]
    assert jobs.uids(job_name) != [first]
