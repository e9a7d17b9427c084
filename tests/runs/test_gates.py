"""A run that misses a gate keeps its result, and is not trained to be judged again."""

from typing import Any

import pytest

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_SUMMARY = '{"accuracy": 0.96, "goal": "accuracy=0.9", "time_to_accuracy_seconds": 40.25}'


def _declared(trainer: str, **fields: Any) -> dict[str, Any]:
    # A run within one second of the cluster's clock would have taken none.
    return python(trainer, SUMMARY, _SUMMARY, "1.2", workers=0, **fields)


@pytest.mark.parametrize(
    ("missed", "passed", "words"),
    [
        (
            {"minAccuracy": 0.97},
            {"minAccuracy": 0.96},
            "an accuracy of 0.96, which is 0.01 less than its `minAccuracy` 0.97",
        ),
        (
            {"maxTimeToAccuracy": 40},
            {"maxTimeToAccuracy": 40.25},
            "a time-to-goal of 40.25 s, which is 0.25 s more than its `maxTimeToAccuracy` 40",
        ),
    ],
    ids=["minAccuracy by 0.01", "maxTimeToAccuracy by 0.25"],
)
def test_a_gate_that_was_missed_passes_once_it_is_lowered(
    missed: dict[str, float],
    passed: dict[str, float],
    words: str,
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
) -> None:
    said = runs.train_in_vain(job_name, **_declared(trainer, **missed))
    assert f"job {job_name} succeeded, but did not meet a limit: {words}" in said
    result, uids = runs.output(job_name), jobs.uids(job_name)
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.96)

    again = runs.train_in_vain(job_name, **_declared(trainer, **missed))
    assert words in again
    assert "trains again" not in again

    assert runs.train(job_name, **_declared(trainer, **passed)).steps == {"Gate": "create"}
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)


def test_every_gate_judges_the_result_that_there_is(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """`maxDuration` and `maxTimeToAccuracy` are judged like `minAccuracy`, all at once."""
    runs.train(job_name, **_declared(trainer, minAccuracy=0.9))
    result, uids = runs.output(job_name), jobs.uids(job_name)

    raised = runs.train_in_vain(job_name, **_declared(trainer, minAccuracy=0.965))
    assert "0.005 less than its `minAccuracy` 0.965" in raised

    short = runs.train_in_vain(job_name, **_declared(trainer, maxDuration=0.5))
    assert f"job {job_name} succeeded, but did not meet a limit: a duration of" in short
    assert "s more than its `maxDuration` 0.5" in short
    longer = _declared(trainer, maxDuration=result["duration_seconds"])
    assert runs.train(job_name, **longer).steps == {"Gate": "create"}

    gates = {"minAccuracy": 0.97, "maxDuration": 0.5, "maxTimeToAccuracy": 40}
    every = runs.train_in_vain(job_name, **_declared(trainer, **gates))
    assert "did not meet 3 limits" in every
    for gate in gates:
        assert f"its `{gate}`" in every

    assert runs.train(job_name, **_declared(trainer)).steps == {"Gate": "create"}
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)


def test_a_missing_time_to_accuracy_is_reported(job_name: str, runs: Runs, trainer: str) -> None:
    declared = python(trainer, SUMMARY, '{"accuracy": 1}', "0", workers=0, maxTimeToAccuracy=9)
    said = runs.train_in_vain(job_name, **declared)
    assert "no time to accuracy was reported, so `maxTimeToAccuracy` 9 can't be checked" in said
