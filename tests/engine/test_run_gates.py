"""A gate that is missed fails `pulumi up`; which are missed, and when, is in tests/runs."""

import secrets
from typing import Any

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack


def test_a_gate_that_was_missed_passes_once_it_is_lowered_and_nothing_is_trained(
    job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """A gate missed by 0.01 fails the update and says by how much.

    The result stays and is not trained again.
    """
    mark = secrets.token_hex(4)
    missing, passing = f"own-{mark}-missing", f"own-{mark}-passing"
    declared = python(trainer, SUMMARY, '{"accuracy": 0.96}', "0", workers=0)

    def both(of_missing: dict[str, Any], of_passing: dict[str, Any]) -> dict[str, Any]:
        return {missing: {**declared, **of_missing}, passing: {**declared, **of_passing}}

    said = job_stack.refused("up", **both({"minAccuracy": 0.97}, {"minAccuracy": 0.9}))
    words = "an accuracy of 0.96, which is 0.01 less than its `minAccuracy` 0.97"
    assert f"job {missing} succeeded, but did not meet a limit: {words}" in said
    assert f"job {passing} succeeded, but" not in said
    assert "Traceback" not in said
    results = [job_stack.output(name) for name in (missing, passing)]
    uids = [jobs.uids(name) for name in (missing, passing)]
    assert [(each["state"], each["accuracy"]) for each in results] == [("Succeeded", 0.96)] * 2

    raised = {"minAccuracy": 0.965}
    again = job_stack.refused("up", **both({"minAccuracy": 0.97}, raised))
    assert words in again
    assert "0.005 less than its `minAccuracy` 0.965" in again
    assert "trains again" not in again

    lowered = job_stack.up(**both({"minAccuracy": 0.96}, {}))
    # The gates alone: one that was missed at first is none, and one that was there before the
    # engine takes for a replacement.
    assert lowered.changes == {"create": 1, "replace": 1}
    assert [job_stack.output(name) for name in (missing, passing)] == results
    assert [jobs.uids(name) for name in (missing, passing)] == uids
