"""Whoever stops waiting for a run finds it again: no second job, and nothing to repair."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from jobs.records import archive
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.job_programs import SLEEPING, TALKING, WITHOUT_END, enough, python
from tests.engine.killing import orphans, train_with, wait_until_said
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack
from tests.runs.log_reader import kept, printed, reading, results, texts

ENDING_SECONDS = 60
RUNNING = r"PyTorchJob mnist-gloo creating[^\n]* ranks: [^\n]*running"


@pytest.fixture(autouse=True)
def own_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the logs apart."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))


def test_ctrl_c_stops_waiting_and_leaves_the_job_to_the_next_up_or_deletes_it(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """As `onCancel` has it: the next `up` waits for the one again, and trains the other."""
    stack, left, deleted = job_stack, job_name, f"{job_name}-deleted"
    declared = {
        left: python(trainer, TALKING, WITHOUT_END, "0.2", workers=0),
        deleted: python(trainer, SLEEPING, "600", onCancel="delete"),
    }
    with stack.going_up(**declared) as up:
        before = {name: jobs.await_running(name) for name in declared}
        up.send_signal(signal.SIGINT)
        assert up.wait(COMMAND_SECONDS) != 0
    said = stack.log
    assert f"stopped waiting for PyTorchJob slipway-jobs/{left}, which continues" in said
    assert f"slipway-jobs/{deleted} and deleted it, as `onCancel` requests" in said
    await_true(lambda: jobs.uids(deleted) == [])
    declared[deleted]["args"] = ["2"]
    with stack.going_up(**declared) as up:
        await_true(lambda: f"{left} already exists: waiting for it" in stack.log)
        enough(jobs, left, "master")
        assert up.wait(COMMAND_SECONDS) == 0, stack.log
    assert [stack.output(name)["state"] for name in declared] == ["Succeeded"] * 2
    assert jobs.uids(left) == [before[left]]
    (other,) = jobs.uids(deleted)
    assert other != before[deleted]


def test_a_killed_cli_leaves_one_job_of_which_no_line_is_missing_and_none_is_double(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    """The next `up` takes the wait up again; results and logs are shown before, too."""
    stack, job = job_stack, job_name
    declared = {job: python(trainer, TALKING, WITHOUT_END, "0.2", workers=1)}
    with stack.going_up(**declared) as up:
        uid = jobs.await_running(job)
        await_true(lambda: min((len(lines) for lines in kept(job).values()), default=0) > 6)
        assert f"job {job}: running" in results(stack.saved, is_busy=True)
        up.send_signal(signal.SIGKILL)
        up.wait()
    # The plugin notices a moment later; then nobody writes.
    await_true(lambda: stands_still(job))
    [log, *_] = archive.of_job("test", job).runs()[0].logs()
    with log.path.open("a") as file:
        file.write("2026-01-01T00:00:00.0000")
    lost = len(kept(job)[0])
    assert f"job {job}: interrupted" in results(stack.saved)

    # Nobody waits: the logs can be followed all the same.
    state = json.loads(stack.pulumi("stack", "export", "--show-secrets").text)
    with reading(state, job, rank=0) as alone:
        assert alone.first() in {"0 says 0", "0 errs 0"}
        stack.unlock()
        with stack.going_up(**declared) as up:
            await_true(lambda: "already exists: waiting for it" in stack.log)
            enough(jobs, job, "master", "worker")
            assert up.wait(COMMAND_SECONDS) == 0, stack.log
        followed, _ = alone.all()
    result, lines = stack.output(job), printed(jobs, job)
    assert jobs.uids(job) == [uid]
    assert (result["state"], result["restarts"]) == ("Succeeded", 0)
    assert kept(job) == dict(enumerate(lines))
    assert lost < len(lines[0])
    assert followed == texts(lines[0])


def stands_still(job: str) -> bool:
    """Whether nobody writes to a job's logs."""
    before = kept(job)
    time.sleep(1.5)
    return kept(job) == before


@pytest.mark.long
def test_ctrl_c_of_make_up_leaves_what_the_next_make_up_goes_on_from(
    spare_stack: LiveStack,
) -> None:
    """Once or twice; in a terminal it reaches make, the command and the CLI at once."""
    train_with(spare_stack, seed=0)
    for place, times in (
        ("Embedded dev.* creating", 2),
        ("Image slipway-trainer.* creating", 1),
        ("OperatorReady.* creating", 2),
        (RUNNING, 1),
    ):
        seconds = interrupt(spare_stack, place, times)
    assert seconds < ENDING_SECONDS
    said = spare_stack.scratch.output.read_text() + spare_stack.scratch.errors.read_text()
    assert "Traceback" not in said
    assert "stopped waiting for PyTorchJob slipway-jobs/mnist-gloo" in said
    uids = spare_stack.uids()
    spare_stack.up()
    assert spare_stack.job("mnist-gloo")["state"] == "Succeeded"
    assert spare_stack.uids()["PyTorchJob/mnist-gloo"] == uids["PyTorchJob/mnist-gloo"]
    assert orphans(spare_stack) == []


def interrupt(stack: LiveStack, pattern: str, times: int) -> float:
    """Press Ctrl-C once `make up` has said `pattern` in its update; return how long it went on."""
    process = stack.scratch.start("make up")
    wait_until_said(stack, process, rf"(?s)Updating \(dev\).*{pattern}")
    began = time.monotonic()
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1)
    assert process.wait(120) != 0
    return time.monotonic() - began
