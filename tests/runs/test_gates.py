"""A run that misses a gate keeps its result, and is not trained to be judged again."""

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_SUMMARY = '{"accuracy": 0.96, "goal": "accuracy=0.9", "time_to_accuracy_seconds": 40.25}'
_MISSED = "an accuracy of 0.96, which is 0.01 less than its `minAccuracy` 0.97"


def test_gates_judge_the_result_that_there_is_and_train_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A gate says by how much it was missed, all of them at once, and passes once it is lowered."""
    # A run within one second of the cluster's clock would have taken none.
    declared = python(trainer, SUMMARY, _SUMMARY, "1.2", workers=0)
    said = runs.train_in_vain(job_name, **declared, minAccuracy=0.97)
    assert f"job {job_name} succeeded, but did not meet a limit: {_MISSED}" in said
    result, uids = runs.output(job_name), jobs.uids(job_name)
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.96)
    again = runs.train_in_vain(job_name, **declared, minAccuracy=0.97)
    assert _MISSED in again
    assert "trains again" not in again
    assert runs.train(job_name, **declared, minAccuracy=0.96).steps == {"Gate": "create"}

    for limit, words in (
        ({"minAccuracy": 0.965}, "0.005 less than its `minAccuracy` 0.965"),
        (
            {"maxTimeToAccuracy": 40},
            "0.25 s more than its `maxTimeToAccuracy` 40",
        ),
        ({"maxDuration": 0.5}, "s more than its `maxDuration` 0.5"),
    ):
        assert words in runs.train_in_vain(job_name, **declared, **limit)
    kept = {"maxTimeToAccuracy": 40.25, "maxDuration": result["duration_seconds"]}
    assert runs.train(job_name, **declared, **kept).steps == {"Gate": "create"}

    gates = {"minAccuracy": 0.97, "maxDuration": 0.5, "maxTimeToAccuracy": 40}
    every = runs.train_in_vain(job_name, **declared, **gates)
    assert "did not meet 3 limits" in every
    for gate in gates:
        assert f"its `{gate}`" in every
    assert runs.train(job_name, **declared).steps == {"Gate": "create"}
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)
