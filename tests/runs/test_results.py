"""What a run returns, and how its gates judge it: the real operator, real pods."""

from tests.engine.job_programs import SUMMARY, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_MANY_EPOCHS = """
import slipway
for epoch in range(1, 1001):
    slipway.log(epoch=epoch, val_loss=1 / epoch, accuracy=1 - 1 / epoch)
slipway.finish(perplexity=12.4)
"""
_SUMMARY = '{"accuracy": 0.96, "goal": "accuracy=0.9", "time_to_accuracy_seconds": 40.25}'
_STEPS = """
import slipway, time
for step in range(1, 8):
    slipway.log(step=step, loss=1 / step)
    time.sleep(0.2)
slipway.finish(accuracy=0.5)
"""
_LAUNCHED = ["python3", "-m", "slipway_trainer.launch", "--", "-c", _STEPS]


def test_a_program_that_ends_at_once_runs_on_every_rank(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """Its Master has ended, and its name leads nowhere, before the Workers have found it."""
    runs.train(job_name, image=trainer, command=["echo", "hello"], workers=2, cpu="100m")
    assert runs.output(job_name)["exit_codes"] == {"0": 0, "1": 0, "2": 0}


def test_numbers_that_a_termination_message_cannot_hold_arrive_whole_and_are_judged(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    bounds = {"val_loss": {"max": 0.01}, "perplexity": {"max": 13}}
    attempt = runs.train(job_name, **python(trainer, _MANY_EPOCHS, workers=0, require=bounds))
    result = runs.output(job_name)
    (pod,) = jobs.items("pods", job_name)
    (status,) = pod["status"]["containerStatuses"]
    assert '"cut": ["epoch_metrics"]' in status["state"]["terminated"]["message"]
    assert result["epoch_metrics"]["val_loss"] == [1 / epoch for epoch in range(1, 1001)]
    assert result["metrics"] == {"val_loss": 0.001, "perplexity": 12.4}
    assert result["accuracy"] == 0.999
    assert "lacks part of" not in attempt.text


def test_gates_judge_the_result_that_there_is_and_train_nothing(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """A missed gate fails each `up`, all that were missed are named, and lower ones pass."""
    # A run within one second of the cluster's clock would have taken none.
    declared = python(trainer, SUMMARY, _SUMMARY, "1.2", workers=0)
    missed = "an accuracy of 0.96, which is 0.01 less than its `minAccuracy` 0.97"
    said = runs.train_in_vain(job_name, **declared, minAccuracy=0.97)
    assert f"job {job_name} succeeded, but did not meet a limit: {missed}" in said
    result, uids = runs.output(job_name), jobs.uids(job_name)
    assert (result["state"], result["accuracy"]) == ("Succeeded", 0.96)

    limits = {"minAccuracy": 0.97, "maxDuration": 0.5, "maxTimeToAccuracy": 40}
    again = runs.train_in_vain(job_name, **declared, **limits)
    assert "did not meet 3 limits" in again
    assert missed in again
    assert "trains again" not in again

    met = {"minAccuracy": 0.96, "maxDuration": result["duration_seconds"]}
    passed = runs.train(job_name, **declared, **met, maxTimeToAccuracy=40.25)
    assert passed.steps == {"Gate": "create"}
    assert (runs.output(job_name), jobs.uids(job_name)) == (result, uids)


def test_a_job_recovers_from_its_drill_and_its_gate_judges_the_seconds(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """It is killed once."""
    drill = {"rank": 0, "step": 3, "within": 120}
    declared = python(trainer, "", workers=0, backoffLimit=5) | {"command": _LAUNCHED, "args": []}
    attempt = runs.train(job_name, **declared, drill=drill)
    result = runs.output(job_name)
    seen = result["drill"]
    assert (seen["rank"], seen["step"], seen["repeated_steps"]) == (0, 3, 3)
    assert 0 < seen["seconds"] < 120
    assert result["restarts"] == 1
    assert "drilled" not in [each["event"] for each in jobs.events(job_name)], "of the last start"

    said = runs.train_in_vain(job_name, **declared, drill={**drill, "within": 1})
    assert f"a recovery from its `drill` of {seen['seconds']:g} s, which is " in said
    assert "more than its `within` 1" in said
    assert runs.output(job_name)["run_id"] == result["run_id"], attempt.text
