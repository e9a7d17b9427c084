"""A rank that stands still ends the run, and is named with its stack, though the others wait."""

import re

from tests.engine.job_programs import python
from tests.runs.runner import Runs

_STALL = 10
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


def test_a_rank_that_stands_still_ends_the_run_and_is_named_with_its_stack(
    job_name: str, runs: Runs, trainer: str
) -> None:
    said = runs.train_in_vain(
        job_name, **python(trainer, _STOPS, stall=_STALL, memory="512Mi", workers=2)
    )
    assert f"job {job_name} ended TimedOut:" in said
    assert f"stood still: nothing was printed for {_STALL} s" in said
    assert f"the others waited for rank 1 ({job_name}-worker-0)" in said
    assert "find out why that rank did not take part, or raise the job's `stall`" in said
    result = runs.output(job_name)
    assert result["failure"]["rank"] == 1
    stacks = result["failure"]["stacks"]
    assert any("in reads_for_ever" in frame for frame in stacks["rank 1"])
    assert any(re.search("in all_reduce", frame) for frame in stacks["rank 0"])
    assert result["duration_seconds"] < 10 * _STALL
