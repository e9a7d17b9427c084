"""A run that a user suspends, with the real operator, which deletes its pods and makes new ones."""

import json

import pytest

from tests.engine.awaiting import await_true
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


@pytest.mark.long
def test_a_run_that_is_suspended_with_kubectl_goes_on_after_it(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A run that a user or Kueue suspends goes on after it, and its pause counts for nothing.

    No change in place resumes it.
    """

    def suspend(value: bool) -> None:  # as `runPolicy` has it
        patch = json.dumps({"spec": {"runPolicy": {"suspend": value}}})
        jobs.kubectl("patch", "pytorchjob", job_name, "--type=merge", f"--patch={patch}")

    with runs.training(job_name, **python(trainer, SLEEPING, "8")) as going:
        await_true(lambda: "2 running" in going.text)
        before = jobs.uids(job_name)
        suspend(True)
        await_true(lambda: "2 ranks: suspended" in going.text)
        await_true(lambda: jobs.items("pods", job_name) == [])
        suspend(False)
        assert going.end().error is None, going.text
    result = runs.output(job_name)
    assert (result["state"], result["exit_codes"]) == ("Succeeded", {"0": 0, "1": 0})
    assert "exited with code" not in going.text
    assert jobs.uids(job_name) == before, "it was not submitted again"
