"""A rank that stands still ends the run, one that is slow is named, though the others wait."""

import re
import time

import pytest

from tests.engine.job_programs import MEETING, python
from tests.runs.runner import Runs

_STALL = 20
_STOPS = """
import os, time, torch, torch.distributed as dist
from slipway.events import Events
dist.init_process_group("gloo")
rank, events = dist.get_rank(), Events(dist.get_rank())
def reads_for_ever():
    time.sleep(600)
for step in range(6):
    if step == 5 and rank == 1:
        reads_for_ever()
    dist.all_reduce(torch.ones(1))
    events.emit("step", epoch=1, step=step, steps=100)
    time.sleep(0.2)
"""

_RESUMES = """
import os, sys, time
from slipway.events import Events
began, until = time.time(), float(sys.argv[1])
rank = int(os.environ.get("RANK", os.environ["HOSTNAME"].rpartition("-")[2]))
events = Events(rank)
def reads_for_ever():
    time.sleep(600)
step = 0
while time.time() < until:
    if step == 5 and rank == 1 and began < until - 60:
        reads_for_ever()
    events.emit("step", epoch=1, step=step, steps=1000)
    step += 1
    time.sleep(0.2)
"""
"""Rank 1 stands still unless it starts in the last minute."""

_PACES = f"""{MEETING}
from slipway.events import Events
seconds = {{"data": 0.2 if rank == 1 else 0.01, "compute": 0.1, "backward": 0.1}}
Events(rank).emit("pace", steps=50, seconds_in=seconds)
time.sleep(6)
"""
"""Two ranks that report what the launcher's programs do after 20 s."""


def test_a_rank_that_stands_still_ends_the_run_and_is_named_with_its_stack(
    job_name: str, runs: Runs, trainer: str
) -> None:
    """The others wait for it in a collective."""
    said = runs.train_in_vain(
        job_name, **python(trainer, _STOPS, stall=_STALL, memory="512Mi", workers=2)
    )
    assert f"job {job_name} ended TimedOut:" in said
    assert f"stalled: nothing was printed for {_STALL} s" in said
    assert f"the others waited for rank 1 ({job_name}-worker-0)" in said
    assert "find out why that rank did not take part, or raise the job's `stall`" in said
    result = runs.output(job_name)
    assert result["failure"]["rank"] == 1
    stacks = result["failure"]["stacks"]
    assert any("in reads_for_ever" in frame for frame in stacks["rank 1"])
    assert any(re.search("in all_reduce", frame) for frame in stacks["rank 0"])
    assert result["duration_seconds"] < 10 * _STALL


@pytest.mark.long
def test_a_rank_of_an_elastic_job_that_stands_still_is_replaced_and_the_others_go_on(
    job_name: str, runs: Runs, trainer: str
) -> None:
    until = str(time.time() + 90)
    declared = python(trainer, _RESUMES, until, stall=_STALL, workers=3, elastic={"minReplicas": 2})
    attempt = runs.train(job_name, **declared)
    (warning,) = [each for each in attempt.context.lines if "stalled" in each]
    assert re.search(rf"-worker-1\) stalled for {_STALL} s at \S+ in reads_for_ever", warning)
    assert "its pod is being replaced" in warning
    assert runs.output(job_name)["state"] == "Succeeded"


def test_a_rank_that_the_others_wait_for_is_named_in_the_row_a_warning_and_the_result(
    job_name: str, runs: Runs, trainer: str
) -> None:
    attempt = runs.train(job_name, **python(trainer, _PACES, workers=1))
    assert any("; slower than the others: rank 1" in row for row in attempt.context.rows)
    (warning,) = [each for each in attempt.context.lines if "slower than" in each]
    assert warning.startswith("rank 1 is 2.7 times slower than the others")
    assert list(runs.output(job_name)["stragglers"]) == ["rank 1"]
    assert "data 0.2 s" in runs.output(job_name)["stragglers"]["rank 1"]
