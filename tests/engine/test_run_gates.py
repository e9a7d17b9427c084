"""A run that misses a gate fails `up`, keeps its result, and is not trained to be judged again."""

from typing import Any

import pytest

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs, JobStack

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
            "an accuracy of 0.9600, which is 0.0100 less than its `minAccuracy` 0.97",
        ),
        (
            {"maxTimeToAccuracy": 40},
            {"maxTimeToAccuracy": 40.25},
            "a time to its goal of 40.25 s, which is 0.2 s more than its `maxTimeToAccuracy` 40",
        ),
    ],
    ids=["minAccuracy by 0.01", "maxTimeToAccuracy by 0.25"],
)
def test_a_gate_that_was_missed_passes_once_it_is_lowered_and_nothing_is_trained(
    missed: dict[str, float],
    passed: dict[str, float],
    words: str,
    job_name: str,
    job_stack: JobStack,
    jobs: Jobs,
    trainer: str,
) -> None:
    said = job_stack.train_in_vain(job_name, **_declared(trainer, **missed))
    assert f"job {job_name} succeeded, but missed: {words}" in said
    assert "Traceback" not in said
    result, uids = job_stack.output(job_name), jobs.uids(job_name)
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.96)

    again = job_stack.train_in_vain(job_name, **_declared(trainer, **missed))
    assert words in again
    assert "trains again" not in again

    lowered = job_stack.train(job_name, **_declared(trainer, **passed))
    assert lowered.changes == {"create": 1}  # The gate alone: a missed one is none.
    assert job_stack.output(job_name) == result
    assert jobs.uids(job_name) == uids


def test_a_run_that_took_longer_than_max_duration_fails_and_keeps_its_result(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    said = job_stack.train_in_vain(job_name, **_declared(trainer, maxDuration=0.5))
    assert f"job {job_name} succeeded, but missed: a duration of" in said
    assert "s more than its `maxDuration` 0.5" in said
    result, uids = job_stack.output(job_name), jobs.uids(job_name)
    longer = _declared(trainer, maxDuration=result["duration_seconds"])
    assert job_stack.train(job_name, **longer).changes == {"create": 1}
    assert (job_stack.output(job_name), jobs.uids(job_name)) == (result, uids)


def test_all_gates_that_were_missed_are_named_together(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    gates = {"minAccuracy": 0.97, "maxDuration": 0.5, "maxTimeToAccuracy": 40}
    said = job_stack.train_in_vain(job_name, **_declared(trainer, **gates))
    assert "missed 3 limits" in said
    for gate in gates:
        assert f"its `{gate}`" in said


def test_a_gate_that_is_raised_or_taken_out_later_judges_the_result_that_there_is(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    job_stack.train(job_name, **_declared(trainer, minAccuracy=0.9))
    result, uids = job_stack.output(job_name), jobs.uids(job_name)
    said = job_stack.train_in_vain(job_name, **_declared(trainer, minAccuracy=0.965))
    assert "0.0050 less than its `minAccuracy` 0.965" in said
    # The gate that was there has gone, and the engine takes its next one for a replacement.
    assert job_stack.train(job_name, **_declared(trainer)).changes == {"replace": 1}
    assert (job_stack.output(job_name), jobs.uids(job_name)) == (result, uids)


def test_a_run_without_a_time_to_accuracy_is_told_so(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    declared = python(trainer, SUMMARY, '{"accuracy": 1}', "0", workers=0, maxTimeToAccuracy=9)
    said = job_stack.train_in_vain(job_name, **declared)
    assert "it told no time to accuracy, so `maxTimeToAccuracy` 9 can't be judged" in said
