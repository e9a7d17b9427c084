"""Removing a run: its pods go first, and nothing waits for ever."""

import pytest

from jobs.run import submit
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

HOLD = "example.com/hold"


def test_destroy_stops_a_run_that_is_on(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    """No state knows of it: nobody has waited for its end."""
    with runs.training(job_name, **python(trainer, SLEEPING, "600")) as going:
        jobs.await_all_running(job_name, pods=2)
    assert "which continues" in going.text
    assert len(jobs.items("pods", job_name)) == 2
    runs.destroy(job_name)
    assert jobs.uids(job_name) == []
    assert jobs.items("pods", job_name) == []


@pytest.mark.parametrize("kind", ["pytorchjob", "pod"])
def test_a_destroy_that_a_finalizer_holds_ends_and_says_what_to_do(
    kind: str, job_name: str, runs: Runs, jobs: Jobs, trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a minute, but the end of it is the same sooner."""
    monkeypatch.setattr(submit, "_GONE_SECONDS", 5.0)
    runs.train(job_name, **python(trainer, SLEEPING, "0"))
    name = job_name if kind == "pytorchjob" else f"{job_name}-worker-0"
    jobs.kubectl("patch", kind, name, "--type=merge", f"--patch={finalizers(HOLD)}")
    try:
        held = rf"(?i){kind} {name} can't be deleted while it has the finalizer {HOLD}"
        with pytest.raises(TimeoutError, match=held) as refused:
            runs.destroy(job_name)
    finally:
        jobs.kubectl("patch", kind, name, "--type=merge", f"--patch={finalizers()}")
    assert f"kubectl --namespace slipway-jobs patch {kind} {name} " in str(refused.value)
    monkeypatch.undo()
    runs.destroy(job_name)


def finalizers(*names: str) -> str:
    """A merge patch that puts finalizers on an object, or takes all of them off."""
    listed = ",".join(f'"{name}"' for name in names)
    return f'{{"metadata":{{"finalizers":[{listed}]}}}}'
