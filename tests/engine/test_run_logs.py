"""`make logs`: every rank's lines, while a run is on, after it, and when its pods have gone.

And `make results`, which shows what came of it.
"""

import io
import json
import os
import signal
import stat
import time
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobs.logs import archive
from jobs.logs.archive import Log
from jobs.spec import TrainingJob
from scripts.stack.outcome import outcomes
from scripts.stack.results import print_results
from scripts.stack.state import StackState
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.job_programs import FAILING, SLEEPING, TALKING, python
from tests.engine.log_reader import read, reading
from tests.engine.pytorchjob_stack import Jobs, JobStack


@pytest.fixture(name="state_home", autouse=True)
def _state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the logs are kept: the stack is made with it, so it comes before."""
    home = tmp_path / "state-home"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


def kept(job: str) -> dict[int, list[str]]:
    """Return what is in the archive of each replica, with times."""
    found: dict[int, list[str]] = {}
    for run in archive.of_job("test", job).runs():
        for log in sorted(run.logs(), key=_first_stamp):
            found.setdefault(log.replica, []).extend(map(str, log.lines()))
    return found


def _first_stamp(log: Log) -> str:
    return next((line.stamp for line in log.lines()), "")


def printed(jobs: Jobs, pod: str) -> list[str]:
    """Return what kubectl shows of a pod, with times."""
    return jobs.kubectl("logs", "--timestamps", pod).splitlines()


def texts(lines: list[str]) -> list[str]:
    return [line.partition(" ")[2] for line in lines]


def test_the_lines_of_all_ranks_come_in_the_order_of_time_each_with_its_rank(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, TALKING, "5", "0.2", workers=1))
    ranks = [printed(jobs, f"{job_name}-master-0"), printed(jobs, f"{job_name}-worker-0")]
    assert [len(lines) for lines in ranks] == [10, 10]
    assert kept(job_name) == {0: ranks[0], 1: ranks[1]}

    lines, said = read(job_stack, job_name)
    assert said == ""
    times = {
        f"[rank {rank}] {text}": datetime.fromisoformat(stamp[:26] + "+00:00")
        for rank in (0, 1)
        for stamp, _, text in (line.partition(" ") for line in ranks[rank])
    }
    assert sorted(lines) == sorted(times)
    # The two outputs of a program may differ by a hair.
    hair = timedelta(milliseconds=20)
    assert all(times[one] <= times[following] + hair for one, following in pairwise(lines))
    alone, _ = read(job_stack, job_name, rank=1)
    assert alone == texts(ranks[1])


def test_logs_are_followed_while_the_run_goes_on_until_it_has_ended(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, TALKING, "40", "1", workers=1)
    with job_stack.training(job_name, **declared) as up:
        jobs.await_all_running(job_name, pods=2)
        with (
            reading(job_stack, job_name) as both,
            reading(job_stack, job_name, rank=1) as alone,
        ):
            assert both.first().startswith("[rank ")
            assert not alone.first().startswith("[rank ")
            # Long before the run has ended, and before anything is in the stack's state.
            assert up.poll() is None
            now, _ = read(job_stack, job_name, follow=False)
            assert 0 < len(now) < 150
            lines, said = both.all()
            lines_alone, said_alone = alone.all()
        assert up.wait(COMMAND_SECONDS) == 0, job_stack.log
    assert (said, said_alone) == ("", "")
    ranks = [
        texts(printed(jobs, f"{job_name}-master-0")),
        texts(printed(jobs, f"{job_name}-worker-0")),
    ]
    for rank in (0, 1):
        mine = [line for line in lines if line.startswith(f"[rank {rank}] ")]
        assert [line.partition("] ")[2] for line in mine] == ranks[rank]
    assert len(lines) == 160
    assert lines_alone == ranks[1]


def test_logs_are_there_after_the_pods_have_gone(
    job_name: str,
    job_stack: JobStack,
    jobs: Jobs,
    trainer: str,
    state_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_stack.train(job_name, **python(trainer, TALKING, "4", "0", workers=1))
    before = read(job_stack, job_name)
    jobs.kubectl("delete", "pytorchjob", job_name, "--wait")
    await_true(lambda: jobs.items("pods", job_name) == [])
    assert read(job_stack, job_name) == before
    assert len(before[0]) == 16

    files = [path for path in (state_home / "slipway/runs").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    # Another machine has none, and says where they are and what there is instead.
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home / "elsewhere"))
    with reading(job_stack, job_name) as reader:
        code, out, said = reader.end()
    assert (code, out) == (1, "")
    assert f"make results JOB={job_name}" in said
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
    job_stack.destroy()
    assert kept(job_name) == {}


def test_after_a_killed_cli_no_line_is_missing_and_none_is_double(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, TALKING, "60", "0.4", workers=1)
    with job_stack.training(job_name, **declared) as up:
        jobs.await_running(job_name)
        await_true(lambda: min((len(lines) for lines in kept(job_name).values()), default=0) > 6)
        up.send_signal(signal.SIGKILL)
        up.wait()
    # The plugin notices a moment later; then nobody writes.
    await_true(lambda: _stands_still(job_name))
    [log, *_] = archive.of_job("test", job_name).runs()[0].logs()
    with log.path.open("a") as file:
        file.write("2026-01-01T00:00:00.0000")
    lost = len(kept(job_name)[0])

    # Nobody waits: the logs can be followed all the same.
    with reading(job_stack, job_name, rank=0) as alone:
        assert alone.first() in {"0 says 0", "0 errs 0"}
        job_stack.unlock()
        job_stack.train(job_name, **declared)
        followed, _ = alone.all()
    assert job_stack.output(job_name)["restarts"] == 0
    ranks = [printed(jobs, f"{job_name}-master-0"), printed(jobs, f"{job_name}-worker-0")]
    assert kept(job_name) == {0: ranks[0], 1: ranks[1]}
    assert lost < len(ranks[0]) == 120
    assert followed == texts(ranks[0])


def _stands_still(job: str) -> bool:
    before = kept(job)
    time.sleep(1.5)
    return kept(job) == before


@pytest.mark.long
def test_what_a_program_said_before_its_restart_comes_first(
    job_name: str,
    job_stack: JobStack,
    trainer: str,
    state_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarts = {"workers": 0, "restartPolicy": "OnFailure", "backoffLimit": 3}
    program = python(trainer, TALKING, "30", "0.7", "0", **restarts)
    before = [f"[rank 0] 0 {verb} {number}" for number in range(3) for verb in ("says", "errs")]
    after = [f"[rank 0] 0 {verb} {number}" for number in range(30) for verb in ("says", "errs")]
    with job_stack.training(job_name, **program) as up:
        await_true(lambda: len(kept(job_name).get(0, [])) > 8)
        # From the pods alone it is the same, as long as Kubernetes has the container before.
        monkeypatch.setenv("XDG_STATE_HOME", str(state_home / "elsewhere"))
        lines, said = read(job_stack, job_name, follow=False)
        monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
        assert (sorted(lines[:6]), said) == (sorted(before), "--- rank 0 was started again\n")
        assert up.wait(COMMAND_SECONDS) == 0, job_stack.log
    assert job_stack.output(job_name)["restarts"] == 1
    lines, said = read(job_stack, job_name)
    assert said == "--- rank 0 was started again\n"
    assert sorted(lines[:6]) == sorted(before)
    assert sorted(lines[6:]) == sorted(after)


def test_of_a_run_that_failed_every_ranks_log_is_kept(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    program = f"print('here is a rank', flush=True)\n{FAILING}"
    job_stack.train_in_vain(job_name, **python(trainer, program, restartPolicy="Never"))
    found = {rank: texts(lines) for rank, lines in kept(job_name).items()}
    assert found == {0: ["here is a rank"], 1: ["here is a rank", "rank 1 is about to fail"]}
    lines, _ = read(job_stack, job_name)
    assert sorted(lines) == [
        "[rank 0] here is a rank",
        "[rank 1] here is a rank",
        "[rank 1] rank 1 is about to fail",
    ]


def test_a_new_run_drops_the_logs_of_the_run_before(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, TALKING, "1", "0", workers=0))
    [first] = archive.of_job("test", job_name).runs()
    job_stack.train(job_name, **python(trainer, TALKING, "2", "0", workers=0))
    [second] = archive.of_job("test", job_name).runs()
    assert first.id != second.id
    assert second.id == job_stack.output(job_name)["run_id"]
    assert texts(kept(job_name)[0])[-1].endswith(" 1")


def test_ctrl_c_ends_the_reading_quietly(
    job_name: str, job_stack: JobStack, jobs: Jobs, trainer: str
) -> None:
    with job_stack.training(job_name, **python(trainer, TALKING, "60", "0.5", workers=0)) as up:
        jobs.await_running(job_name)
        with reading(job_stack, job_name) as reader:
            assert reader.first().startswith("[rank 0] 0 ")
            reader.interrupt()
            _, said = reader.all()
            assert said == ""
        assert up.poll() is None
        assert up.wait(COMMAND_SECONDS) == 0


def test_logs_that_cannot_be_kept_do_not_fail_a_run(
    job_name: str, job_stack: JobStack, trainer: str, state_home: Path
) -> None:
    (state_home / "slipway").mkdir(parents=True)
    (state_home / "slipway/runs").write_text("a file where the directory has to be")
    outcome = job_stack.train(job_name, **python(trainer, TALKING, "3", "0", workers=1))
    said = outcome.text.partition("Diagnostics:")[2]
    assert said.count("are not kept in") == 1, outcome
    (state_home / "slipway/runs").unlink()
    lines, _ = read(job_stack, job_name)
    assert len(lines) == 12


@pytest.mark.long
def test_results_are_shown_after_an_up_that_failed_and_while_one_is_on(
    job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train_in_vain(job_name, **python(trainer, FAILING))
    failed = results(job_stack)
    assert f"job {job_name} ended Failed: rank 1 ({job_name}-worker-0) exited with code 3" in failed
    assert "    rank 1 is about to fail" in failed

    with job_stack.training(job_name, **python(trainer, SLEEPING, "30")) as up:
        await_true(lambda: f"job {job_name}: running" in results(job_stack, is_busy=True))
        up.send_signal(signal.SIGKILL)
        up.wait()
    assert f"job {job_name}: interrupted" in results(job_stack)
    job_stack.unlock()
    declared = python(trainer, SLEEPING, "30", minAccuracy=0.51)
    assert "missed" in job_stack.train_in_vain(job_name, **declared)
    limit = TrainingJob(name=job_name, image=trainer, command=("python3",), min_accuracy=0.51)
    missed = results(job_stack, limit)
    assert missed.splitlines()[1].split()[:4] == [job_name, "Succeeded", "missed", "0.5000"]
    assert "0.0100 less than its `minAccuracy` 0.51" in missed
    job_stack.train(job_name, **python(trainer, SLEEPING, "30", minAccuracy=0.5))
    assert results(job_stack).splitlines()[1].split()[1:3] == ["Succeeded", "passed"]


def results(stack: JobStack, *wanted: TrainingJob, is_busy: bool = False) -> str:
    """Return what `make results` prints."""
    state = StackState.of(json.loads(stack.pulumi("stack", "export", "--show-secrets").text))
    out = io.StringIO()
    print_results("test", outcomes(state, wanted, is_busy=is_busy), {}, out=out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("rank", "message"), [(2, "has no rank 2. There are ranks 0 to 1."), (None, "There is no job")]
)
def test_an_unknown_job_or_rank_is_named_with_what_there_is(
    rank: int | None, message: str, job_name: str, job_stack: JobStack, trainer: str
) -> None:
    job_stack.train(job_name, **python(trainer, SLEEPING, "0"))
    asked = job_name if rank is not None else job_name[:-1]
    with reading(job_stack, asked, rank) as reader:
        code, out, said = reader.end()
    assert (code, out) == (1, "")
    assert message in said
    if rank is None:
        assert f"Did you mean {job_name}?" in said


def test_files_are_not_left_behind_by_reading(
    job_name: str, job_stack: JobStack, trainer: str, tmp_path: Path, monkeypatch: Any
) -> None:
    job_stack.train(job_name, **python(trainer, TALKING, "1", "0", workers=0))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    lines, _ = read(job_stack, job_name)
    assert len(lines) == 2
    assert os.listdir(tmp_path / "tmp") == []  # noqa: PTH208
