"""Whoever stops waiting for a run finds it again: no second job, and nothing to repair."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.engine.awaiting import await_true
from tests.engine.job_programs import SLEEPING, python
from tests.engine.killing import orphans, train_with
from tests.engine.pytorchjob_stack import Jobs, JobStack
from tests.engine.stack import LiveStack
from tests.engine.test_life_healing import wait_until_said

ENDING_SECONDS = 60
RUNNING = r"PyTorchJob sleeper creating \(\d+s\) 1 ranks?: 1 running"


def test_ctrl_c_stops_waiting_and_leaves_the_job_to_the_next_up(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "15")
    with job_stack.training(job_name, **declared) as up:
        uid = jobs.await_running(job_name)
        up.send_signal(signal.SIGINT)
        assert up.wait(ENDING_SECONDS) != 0
    assert "stopped waiting" in job_stack.log
    job_stack.train(job_name, **declared)
    assert jobs.uids(job_name) == [uid]
    assert job_stack.output(job_name)["state"] == "Succeeded"


def test_ctrl_c_deletes_the_job_of_who_wants_it_so_and_the_next_up_trains_anew(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "2", onCancel="delete")
    with job_stack.training(job_name, **{**declared, "args": ["600"]}) as up:
        uid = jobs.await_running(job_name)
        up.send_signal(signal.SIGINT)
        assert up.wait(ENDING_SECONDS) != 0
    # Its pods have their 30 seconds of grace.
    await_true(lambda: jobs.uids(job_name) == [])
    assert "deleted it, as its `onCancel` says" in job_stack.log
    job_stack.train(job_name, **declared)
    (other,) = jobs.uids(job_name)
    assert other != uid
    assert job_stack.output(job_name)["state"] == "Succeeded"


def test_a_killed_cli_leaves_one_job_and_the_next_up_takes_the_wait_up_again(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, SLEEPING, "12")
    uid = job_stack.kill_while_running(jobs, job_name, **declared)
    job_stack.train(job_name, **declared)
    assert jobs.uids(job_name) == [uid]
    assert job_stack.output(job_name)["state"] == "Succeeded"
    assert job_stack.output(job_name)["restarts"] == 0


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 2])
def test_make_up_after_ctrl_c_takes_the_wait_up_again_and_needs_no_help(
    times: int, live_stack: LiveStack, trainer: str
) -> None:
    """Pressed in a terminal it reaches make, the command and the CLI at once."""
    sleeper = python(trainer, SLEEPING, "45", memory="64Mi", workers=0)
    with beside_the_demo(live_stack, sleeper=sleeper):
        code, seconds = interrupt(live_stack, RUNNING, times)
        assert code != 0
        assert seconds < ENDING_SECONDS
        said = live_stack.scratch.output.read_text() + live_stack.scratch.errors.read_text()
        assert "Traceback" not in said
        assert "stopped waiting for PyTorchJob slipway-jobs/sleeper" in said or times == 2, said
        uid = live_stack.uids()["PyTorchJob/sleeper"]
        live_stack.up()
        assert live_stack.uids()["PyTorchJob/sleeper"] == uid
        assert live_stack.job("sleeper")["state"] == "Succeeded"
        assert orphans(live_stack) == []


@pytest.mark.long
def test_ctrl_c_while_the_stack_is_made_leaves_what_the_next_make_up_goes_on_from(
    spare_stack: LiveStack,
) -> None:
    train_with(spare_stack, seed=0)
    for place, times in (("Embedded dev", 2), ("Image slipway-trainer", 1), ("OperatorReady", 2)):
        code, _ = interrupt(spare_stack, rf"{place}.* creating", times)
        assert code != 0
    spare_stack.up()
    assert spare_stack.job("mnist-gloo")["state"] == "Succeeded"
    listing = spare_stack.kubectl("--namespace slipway-jobs get pytorchjobs --output name")
    assert len(listing.split()) == 1
    assert orphans(spare_stack) == []


def interrupt(stack: LiveStack, pattern: str, times: int) -> tuple[int, float]:
    """Press Ctrl-C once `make up` has said `pattern` in its update; return status and seconds."""
    process = stack.scratch.start("make up")
    wait_until_said(stack, process, rf"(?s)Updating \(dev\).*{pattern}")
    began = time.monotonic()
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(1)
    code = process.wait(120)
    return code, time.monotonic() - began


@contextmanager
def beside_the_demo(stack: LiveStack, **declared: dict[str, Any]) -> Iterator[None]:
    """Declare jobs besides, and bring the stack back to what it was in the end."""
    settings = stack.scratch.checkout / "Pulumi.dev.yaml"
    before = settings.read_text()
    wanted = yaml.safe_load(before)
    wanted["config"]["slipway:jobs"] |= declared
    settings.write_text(yaml.safe_dump(wanted))
    try:
        yield
    finally:
        settings.write_text(before)
        restored = stack.up()
        assert re.search("sleeper.*delet", restored.said), restored
