"""What a run's ranks print: read while it is on, after it, and when its pods have gone."""

import stat
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from scripts.cli.terminal import CommandError
from tests.engine.awaiting import await_true
from tests.engine.job_programs import FAILING, TALKING, WITHOUT_END, enough, python
from tests.engine.pytorchjob_stack import Jobs
from tests.runs.log_reader import kept, printed, read, reading, texts
from tests.runs.runner import Runs


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the logs are kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_lines_of_all_ranks_are_in_the_order_of_time_also_after_the_pods_have_gone(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
    state_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each with its rank; only their owner can read them, and with the run they go."""
    runs.train(job_name, **python(trainer, TALKING, "5", "0.2", workers=1))
    ranks = printed(jobs, job_name)
    assert [len(lines) for lines in ranks] == [10, 10]
    assert kept(job_name) == {0: ranks[0], 1: ranks[1]}

    (tmp_path / "tmp").mkdir()
    with monkeypatch.context() as here:
        here.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        lines, said = read(runs.export(), job_name)
    assert said == ""
    assert list((tmp_path / "tmp").iterdir()) == [], "reading leaves no files behind"
    times = {
        f"[rank {rank}] {text}": datetime.fromisoformat(stamp[:26] + "+00:00")
        for rank in (0, 1)
        for stamp, _, text in (line.partition(" ") for line in ranks[rank])
    }
    assert sorted(lines) == sorted(times)
    # The two outputs of a program may differ by a hair.
    hair = timedelta(milliseconds=20)
    assert all(times[one] <= times[following] + hair for one, following in pairwise(lines))
    alone, _ = read(runs.export(), job_name, rank=1)
    assert alone == texts(ranks[1])

    jobs.kubectl("delete", "pytorchjob", job_name, "--wait")
    await_true(lambda: jobs.items("pods", job_name) == [])
    assert read(runs.export(), job_name) == (lines, said)
    folder = state_home / "slipway/runs/test" / job_name
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    # Another machine has none, and says where they are and what there is instead.
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        with pytest.raises(CommandError, match=f"make results JOB={job_name}"):
            read(runs.export(), job_name)
    runs.destroy(job_name)
    assert kept(job_name) == {}


def test_logs_are_followed_while_the_run_goes_on_until_it_has_ended(
    job_name: str, runs: Runs, jobs: Jobs, trainer: str
) -> None:
    declared = python(trainer, TALKING, WITHOUT_END, "0.2", workers=1)
    with runs.training(job_name, **declared) as going:
        jobs.await_all_running(job_name, pods=2)
        with (
            # While one is on, it is in no state yet but as an operation that was begun.
            reading(runs.export(), job_name) as both,
            reading(runs.export(), job_name, rank=0) as left,
        ):
            assert both.first().startswith("[rank ")
            now, _ = read(runs.export(), job_name, follow=False)
            # Ctrl-C ends it quietly, and the run goes on.
            assert left.first().startswith("0 ")
            left.interrupt()
            assert left.all()[1] == ""
            assert not going.future.done()
            enough(jobs, job_name, "master", "worker")
            lines, said = both.all()
        assert going.end().error is None, going.text
    assert said == ""
    ranks = [
        [line.partition("] ")[2] for line in lines if line.startswith(f"[rank {rank}] ")]
        for rank in (0, 1)
    ]
    # Right after the end, kubectl has once shown two lines less.
    await_true(
        lambda: [texts(each) for each in printed(jobs, job_name)] == ranks,
        60,
        lambda: f"{ranks} was read, and is {printed(jobs, job_name)}",
    )
    assert 0 < len(now) < len(lines) == len(ranks[0]) + len(ranks[1])


def test_logs_begin_with_the_output_before_a_restart(
    job_name: str,
    runs: Runs,
    jobs: Jobs,
    trainer: str,
    state_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restarts = {"workers": 0, "restartPolicy": "OnFailure", "backoffLimit": 3}
    program = python(trainer, TALKING, WITHOUT_END, "0.2", "0", **restarts)
    before = [f"[rank 0] 0 {verb} {number}" for number in range(3) for verb in ("says", "errs")]
    with runs.training(job_name, **program) as going:
        await_true(lambda: len(kept(job_name).get(0, [])) > 8, otherwise=lambda: going.text)
        # From the pods alone it is the same, as long as Kubernetes has the container before.
        monkeypatch.setenv("XDG_STATE_HOME", str(state_home / "elsewhere"))
        lines, said = read(runs.export(), job_name, follow=False)
        monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
        assert (sorted(lines[:6]), said) == (sorted(before), "--- rank 0 was restarted\n")
        enough(jobs, job_name, "master")
        assert going.end().error is None, going.text
    assert runs.output(job_name)["restarts"] == 1
    after = jobs.kubectl("logs", f"{job_name}-master-0").splitlines()
    lines, said = read(runs.export(), job_name)
    assert said == "--- rank 0 was restarted\n"
    assert sorted(lines[:6]) == sorted(before)
    assert lines[6:] == [f"[rank 0] {line}" for line in after]


def test_of_a_run_that_failed_every_ranks_log_is_kept(
    job_name: str, runs: Runs, trainer: str
) -> None:
    program = f"print('here is a rank', flush=True)\n{FAILING}"
    runs.train_in_vain(job_name, **python(trainer, program, restartPolicy="Never"))
    assert runs.output(job_name)["duration_seconds"] < 60, "rank 0 sleeps for 600 s"
    found = {rank: texts(lines) for rank, lines in kept(job_name).items()}
    assert found == {0: ["here is a rank"], 1: ["here is a rank", "rank 1 is about to fail"]}
