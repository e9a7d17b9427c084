"""Removing a run waits for nothing for ever; that it stops the pods is in tests/engine."""

import json

import pytest

from jobs.run import submit
from tests.engine.job_programs import SLEEPING, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs


def test_a_destroy_that_a_finalizer_holds_ends_and_says_what_to_do(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a minute, but the end of it is the same sooner."""
    monkeypatch.setattr(submit, "_GONE_SECONDS", 5.0)
    runs.train(job_name, **python(trainer, SLEEPING, "0"))
    pod = f"{job_name}-worker-0"

    def hold_by(*finalizers: str) -> None:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        jobs.kubectl("patch", "pod", pod, "--type=merge", f"--patch={patch}")

    hold_by("example.com/hold")
    try:
        held = rf"(?i)pod {pod} can't be deleted while it has the finalizer example.com/hold"
        with pytest.raises(TimeoutError, match=held) as refused:
            runs.destroy(job_name)
    finally:
        hold_by()
    assert f"kubectl --namespace slipway-jobs patch pod {pod} " in str(refused.value)
    monkeypatch.undo()
    runs.destroy(job_name)
