"""What became of a drill, from the logs of a run's attempts."""

import dataclasses
from typing import Any

import pytest

from jobs.model.parts import Drill
from jobs.records.archive import Run
from jobs.run.retry import recovery
from tests.unit.archived_run import event, line, made

DRILL = Drill(rank=1, step=100, within=60)


def steps(rank: int, times: dict[int, float]) -> str:
    """What a rank prints that reports each step at its time."""
    return "".join(event(at, "metrics", rank, step=step, metrics={}) for step, at in times.items())


def restarted(run: Run, replica: int, text: str) -> None:
    run.log(replica, "again").path.write_text(text)


KILLED = steps(1, {50: 5, 100: 10}) + event(10, "drilled", 1, step=100)


def test_ranks_that_start_again_have_recovered_once_they_are_past_the_step() -> None:
    lost = steps(0, {50: 5, 100: 10, 101: 10.2}) + line(11, "Connection reset by peer")
    run = made([lost, KILLED])
    restarted(run, 0, event(20, "resumed", 0, step=80) + steps(0, {90: 25, 100: 30, 110: 33.4}))
    restarted(run, 1, event(20, "resumed", 1, step=80) + steps(1, {110: 34}))
    seen = recovery(DRILL, [run], is_elastic=False)
    assert seen == {"rank": 1, "step": 100, "seconds": 23.4, "repeated_steps": 20}


def test_without_a_checkpoint_every_step_is_repeated() -> None:
    run, later = made(["", KILLED]), made([steps(0, {50: 30, 150: 40})], run_id="mine-2")
    seen = recovery(DRILL, [run, later], is_elastic=False)
    assert seen == {"rank": 1, "step": 100, "seconds": 30.0, "repeated_steps": 100}


def test_only_the_others_of_an_elastic_job_may_go_on_without_the_rank() -> None:
    run = made([steps(0, {100: 10, 101: 14}), KILLED + steps(1, {101: 10.1})])
    seen = recovery(DRILL, [run], is_elastic=True)
    assert seen == {"rank": 1, "step": 100, "seconds": 4.0, "repeated_steps": 0}
    restarted(run, 1, steps(1, {50: 20, 100: 25}))
    assert recovery(DRILL, [run], is_elastic=False) == {"rank": 1, "step": 100}


@pytest.mark.parametrize(
    ("logs", "last"),
    [(["", steps(1, {50: 5, 99: 9})], {"last_step": 99}), ([steps(0, {200: 5}), "words"], {})],
)
def test_a_drill_that_did_not_take_place(logs: list[str], last: dict[str, Any]) -> None:
    assert recovery(DRILL, [made(logs)], is_elastic=False) == {"rank": 1, **last}


def test_what_a_program_prints_itself_does_no_harm() -> None:
    odd = '{"event": "drilled", "rank": 1, "time": "noon"}\n{"event": "step", "time": "2026-01-01"}'
    odd += '\n{"event": "drilled", "rank": 1, "time": "2026-01-01T00:00:00+00:00", "step": "x"}'
    logs = ["".join(line(1, each) for each in odd.splitlines())]
    other = dataclasses.replace(DRILL, rank=0)
    assert recovery(other, [made(logs)], is_elastic=True) == {"rank": 0}
