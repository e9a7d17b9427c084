"""Whose log is shown of a run that did not succeed, and what of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.observe.log_ends import LogEnds, before_stacks, stack_frames
from jobs.observe.run_state import RunState
from jobs.records.archive import Run
from tests.unit.jobs_objects import ended, job, pod, runs

STAMP = "2026-01-01T00:00:01.000000000Z"
Stood = Callable[..., tuple[list[str], list[str]]]
_BACKWARD = "/torch/autograd/graph.py"
_BARRIER = "/torch/distributed/distributed_c10d.py"
_OWN = "/opt/script/train.py"


@pytest.fixture(name="stood")
def _stood(tmp_path: Path) -> Stood:
    """Who of a run whose ranks stood in these files is named, and whose log is shown."""

    def stood(*files: str | None, gpus: bool = False, **failed: Any) -> tuple[list[str], list[str]]:
        pods = [runs(rank, **failed) for rank in range(len(files))]
        if gpus:
            for each in pods:
                each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
        tracked = RunState(job("Running", workers=len(files) - 1))
        tracked.see_pods(pods)
        run = Run(tmp_path)
        for rank, file in enumerate(files):
            where = f'  File "{file}", line 1 in f'
            dump = ["Current thread 0x01 (most recent call first):", where] if file else []
            texts = [f"step 5 of {rank}", *dump]
            log = run.log(rank, tracked.replicas[rank].container_id)
            log.path.write_text("".join(f"{STAMP} {text}\n" for text in texts))
        ends = LogEnds(tracked, run)
        return [each.ranks for each in ends.silent()], ends.relevant()

    return stood


def test_of_ranks_that_hang_the_one_that_the_others_wait_for_is_named(stood: Stood) -> None:
    """Also if it was stopped, and printed no stack trace."""
    assert stood(_BACKWARD, _OWN) == (["rank 1"], ["step 5 of 1"])
    assert stood(_OWN, _BARRIER, _BACKWARD) == (["rank 0"], ["step 5 of 0"])
    assert stood(_BARRIER, None) == (["rank 1"], ["step 5 of 1"])


@pytest.mark.parametrize(
    "files", [(_OWN, _OWN), (_OWN, _OWN, _BARRIER), (_BARRIER, _BACKWARD), (_OWN, None)]
)
def test_several_or_no_suspects_are_not_blamed(stood: Stood, files: tuple[str | None, ...]) -> None:
    assert stood(*files) == ([], ["step 5 of 0"])


def test_stacks_blame_no_rank_on_gpus_or_after_a_failure(stood: Stood) -> None:
    assert stood(_BACKWARD, _OWN, gpus=True)[0] == []
    assert stood(_BACKWARD, _OWN, last=ended(1), restarts=1)[0] == []


_DUMP = [
    "Thread 0x00007f0a1b7fe6c0 (most recent call first):",
    '  File "/usr/lib/python3.13/threading.py", line 359 in wait',
    "",
    "Current thread 0x00007f0a3f0c1040 (most recent call first):",
    '  File "/opt/script/train.py", line 48 in fail',
    '  File "/opt/script/train.py", line 60 in <module>',
]


def test_the_main_thread_is_the_last_of_a_dump_and_the_log_comes_before_it() -> None:
    log = ["step 5", *_DUMP]
    frames = ["/opt/script/train.py:48 in fail", "/opt/script/train.py:60 in <module>"]
    assert stack_frames([*log, "something else"]) == frames
    assert before_stacks(log) == ["step 5"]


def test_of_several_dumps_the_last_counts_and_of_a_deep_one_the_innermost_frames() -> None:
    deep = ["Thread 0x01 (most recent call first):"]
    deep += [f'  File "a.py", line {number} in f' for number in range(20)]
    assert stack_frames([*_DUMP, *deep]) == [f"a.py:{number} in f" for number in range(6)]
    assert stack_frames(["Traceback (most recent call last):", '  File "a.py", line 1']) == []
    assert before_stacks(["a", "b"]) == ["a", "b"]


def test_a_container_started_again_shows_its_kept_log(tmp_path: Path) -> None:
    run = Run(tmp_path)
    tracked = RunState(job("Failed"))
    last = ended(3, "its message", container="containerd://first")
    tracked.see_pods([runs(0, last=last, restarts=1)])
    assert LogEnds(tracked, run).relevant() == ["its message"], "for want of a log"
    for container, text in (("first", "why"), ("0-1", "it begins")):
        run.log(0, container).path.write_text(f"{STAMP} {text}\n")
    assert LogEnds(tracked, run).relevant() == ["why"]


def test_the_whole_of_a_message_is_the_last_one_in_the_log_of_its_replica(tmp_path: Path) -> None:
    tracked = RunState(job("Succeeded"))
    tracked.see_pods([pod(0, state=ended(0, "{}"))])
    ends = LogEnds(tracked, Run(tmp_path))
    log = Run(tmp_path).log(0, tracked.replicas[0].container_id)
    events = [{"event": "summary", "summary": each} for each in ({"a": 1}, {"a": 2}, "no map")]
    bar = "2/2 [00:00<00:00, 25.03it/s]"  # whose line is left open
    lines = [*(bar + json.dumps(each) for each in events), '{"event": "epoch", "summary": {}}']
    lines += ['a "summary"', "end"]
    log.path.write_text("".join(f"{STAMP} {line}\n" for line in lines))
    assert ends.summary(0) == {"a": 2}
    log.path.write_text(f"{STAMP} end\n")
    assert ends.summary(0) == {}
