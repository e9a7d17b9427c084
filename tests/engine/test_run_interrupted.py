"""Whoever stops waiting for a run finds it again: no second job, and nothing to repair."""

import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def make(
    tmp_path_factory: pytest.TempPathFactory, root: Path, kubeconfig: str, trainer: str, jobs: Jobs
) -> Iterator[Callable[[], JobStack]]:
    """Return what makes a stack without jobs; nothing of any is left in the end."""
    made: list[JobStack] = []
    with pytest.MonkeyPatch.context() as patch:
        # Where the logs are kept: a stack is made with it.
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state-home")))

        def one() -> JobStack:
            made.append(JobStack(tmp_path_factory.mktemp("stack"), root, kubeconfig, trainer, jobs))
            return made[-1]

        yield one
        for each in made:
            each.leave()


@dataclass(frozen=True)
class Resumed:
    """What the next `up` made of a job whose `up` was interrupted.

    Args:
        job: Its name.
        said: What the one that was interrupted said.
        before: The identity of its PyTorchJob then.
        after: Of all that there are now.
        result: How it ended.
    """

    job: str
    said: str
    before: str
    after: list[str]
    result: dict[str, Any]


@pytest.fixture(scope="module")
def pressed(make: Callable[[], JobStack], jobs: Jobs, trainer: str) -> dict[str, Resumed]:
    """Ctrl-C is pressed while two jobs train: one that it leaves, and one that it deletes."""
    stack, left, deleted = make(), unique(), unique()
    declared = {
        left: python(trainer, TALKING, WITHOUT_END, "0.2", workers=0),
        deleted: python(trainer, SLEEPING, "600", onCancel="delete"),
    }
    with stack.going_up(**declared) as up:
        before = {name: jobs.await_running(name) for name in declared}
        up.send_signal(signal.SIGINT)
        assert up.wait(COMMAND_SECONDS) != 0
    said = stack.log
    await_true(lambda: jobs.uids(deleted) == [])
    declared[deleted]["args"] = ["2"]
    with stack.going_up(**declared) as up:
        await_true(lambda: f"{left} already exists: waiting for it" in stack.log)
        enough(jobs, left, "master")
        assert up.wait(COMMAND_SECONDS) == 0, stack.log
    return {
        kind: Resumed(name, said, before[name], jobs.uids(name), stack.output(name))
        for kind, name in (("left", left), ("deleted", deleted))
    }


def unique() -> str:
    """Return a job's name that nobody else has."""
    return f"own-{secrets.token_hex(4)}"


def test_ctrl_c_stops_waiting_and_leaves_the_job_to_the_next_up(
    pressed: dict[str, Resumed],
) -> None:
    """Ctrl-C once stops waiting and leaves the job.

    The next `up` takes the wait up again without a second job.
    """
    left = pressed["left"]
    assert f"stopped waiting for PyTorchJob slipway-jobs/{left.job}, which continues" in left.said
    assert left.after == [left.before]
    assert left.result["state"] == "Succeeded"


def test_with_on_cancel_delete_ctrl_c_deletes_the_job_and_up_trains_again(
    pressed: dict[str, Resumed],
) -> None:
    """`onCancel: delete` removes the job."""
    deleted = pressed["deleted"]
    assert f"slipway-jobs/{deleted.job} and deleted it, as `onCancel` requests" in deleted.said
    (other,) = deleted.after
    assert other != deleted.before
    assert deleted.result["state"] == "Succeeded"


@dataclass(frozen=True)
class Killed(Resumed):
    """The same of one whose CLI was killed.

    Args:
        running: What `make results` printed before.
        interrupted: The same afterwards, when nobody waited.
        lost: How many lines of rank 0 were kept until then.
        followed: What `make logs` printed of rank 0, from then on until the end.
        kept: Of each rank the lines in the archive in the end, with times.
        printed: The same as Kubernetes has them.
    """

    running: str
    interrupted: str
    lost: int
    followed: list[str]
    kept: Mapping[int, list[str]]
    printed: list[list[str]]


@pytest.fixture(scope="module")
def killed(make: Callable[[], JobStack], jobs: Jobs, trainer: str) -> Killed:
    """The CLI is killed while a job trains; its logs are read before the next one waits for it."""
    stack, job = make(), unique()
    declared = {job: python(trainer, TALKING, WITHOUT_END, "0.2", workers=1)}
    with stack.going_up(**declared) as up:
        uid = jobs.await_running(job)
        await_true(lambda: min((len(lines) for lines in kept(job).values()), default=0) > 6)
        running = results(stack.saved, is_busy=True)
        up.send_signal(signal.SIGKILL)
        up.wait()
    said = stack.log
    # The plugin notices a moment later; then nobody writes.
    await_true(lambda: stands_still(job))
    [log, *_] = archive.of_job("test", job).runs()[0].logs()
    with log.path.open("a") as file:
        file.write("2026-01-01T00:00:00.0000")
    lost = len(kept(job)[0])
    interrupted = results(stack.saved)

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
    return Killed(
        job, said, uid, jobs.uids(job), stack.output(job), running, interrupted,
        lost, followed, kept(job), printed(jobs, job),
    )  # fmt: skip


def stands_still(job: str) -> bool:
    """Whether nobody writes to a job's logs."""
    before = kept(job)
    time.sleep(1.5)
    return kept(job) == before


def test_a_killed_cli_leaves_one_job_and_the_next_up_takes_the_wait_up_again(
    killed: Killed,
) -> None:
    """A killed CLI is healed by the next `make up`: one job, no orphan."""
    assert killed.after == [killed.before]
    assert killed.result["state"] == "Succeeded"
    assert killed.result["restarts"] == 0


def test_after_a_killed_cli_no_line_is_missing_and_none_is_double(killed: Killed) -> None:
    assert killed.kept == dict(enumerate(killed.printed))
    assert killed.lost < len(killed.printed[0])
    assert killed.followed == texts(killed.printed[0])


def test_results_are_shown_while_an_up_is_on_and_after_it_was_killed(killed: Killed) -> None:
    assert f"job {killed.job}: running" in killed.running
    assert f"job {killed.job}: interrupted" in killed.interrupted


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
        code, seconds = interrupt(spare_stack, place, times)
        assert code != 0
    assert seconds < ENDING_SECONDS
    said = spare_stack.scratch.output.read_text() + spare_stack.scratch.errors.read_text()
    assert "Traceback" not in said
    assert "stopped waiting for PyTorchJob slipway-jobs/mnist-gloo" in said
    uids = spare_stack.uids()
    spare_stack.up()
    assert spare_stack.job("mnist-gloo")["state"] == "Succeeded"
    assert spare_stack.uids()["PyTorchJob/mnist-gloo"] == uids["PyTorchJob/mnist-gloo"]
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
