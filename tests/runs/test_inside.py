"""A look into a run that goes on, in its pods."""

import subprocess
import sys
import time
from typing import Any

import pytest

from scripts.cli.runs import inside
from scripts.cli.state import StackState
from tests.engine.awaiting import await_true
from tests.engine.job_programs import enough, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.runner import Runs

_WAITS = """
import os, sys, time
open("/work/left", "w").write("by the program")
def waits_for_a_batch():
    while not os.path.exists("/work/enough"):
        time.sleep(0.2)
print(os.environ["RANK"], "begins", flush=True)
waits_for_a_batch()
"""
_SECONDS = 3


@pytest.mark.usefixtures("folder")
def test_a_running_rank_shows_where_it_stands_and_takes_a_shell_beside_it(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A running rank shows where it stands, and takes a shell beside its program within 3 s."""
    declared: dict[str, Any] = python(trainer, _WAITS, env={"OWN": "declared"}, workers=1)
    with runs.training(job_name, **declared) as going:
        jobs.await_all_running(job_name, 2)
        await_true(lambda: "1 begins" in jobs.kubectl("logs", f"{job_name}-worker-0"))
        state = StackState.from_export(runs.export())
        monkeypatch.setattr(inside, "read_state", lambda *_, **__: state)

        assert inside.stacks("test", job_name, None) == 0
        shown = capfd.readouterr().out
        assert f"--- rank 0 ({job_name}-master-0)\nrank 0, process 1: python3 -c" in shown
        assert f"--- rank 1 ({job_name}-worker-0)\nrank 1, process 1: python3 -c" in shown
        assert shown.count("in waits_for_a_batch") == 2

        began = time.monotonic()
        words = "pwd; id -un; echo $OWN, rank $RANK; cat left; exit 7"
        with subprocess.Popen(["echo", words], stdout=subprocess.PIPE) as typed:
            monkeypatch.setattr(sys, "stdin", typed.stdout)
            assert inside.shell("test", job_name, 1) == 7, "the shell's own exit code"
        assert time.monotonic() - began < _SECONDS
        lines = capfd.readouterr().out.splitlines()
        assert lines == ["/work", "slipway", "declared, rank 1", "by the program"]

        for each in ("master", "worker"):
            enough(jobs, job_name, each)
        assert going.end().error is None, going.text
    assert runs.output(job_name)["state"] == "Succeeded"
