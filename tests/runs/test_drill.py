"""A drill on a real cluster: who recovers from it, in what time, and who does not."""

from typing import Any

from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_STEPS = """
import slipway, time
for step in range(1, 8):
    slipway.log(step=step, loss=1 / step)
    time.sleep(0.2)
slipway.finish(accuracy=0.5)
"""
_LAUNCHED = ["python3", "-m", "slipway_trainer.launch", "--", "-c", _STEPS]


def test_a_job_recovers_from_its_drill_and_its_gate_judges_the_seconds(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """It is killed once; a drill that does not take place fails its gate."""
    drill: dict[str, Any] = {"rank": 0, "step": 3, "within": 120}
    declared = {"image": trainer, "command": _LAUNCHED, "workers": 0, "cpu": "100m"}
    declared |= {"memory": "128Mi", "backoffLimit": 5}
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

    said = runs.train_in_vain(job_name, **declared, drill={**drill, "step": 100})
    assert "rank 0 reported no step 100 or later (7 was its last one)" in said
