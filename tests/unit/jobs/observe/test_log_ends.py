"""Whose log is shown of a run that did not succeed, and what of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.observe.log_ends import LogEnds, before_stacks, stack_frames
from jobs.records.archive import Run
from tests.unit.jobs_objects import ended, job, pod, runs, seen

STAMP = "2026-01-01T00:00:01.000000000Z"
_BACKWARD = "/torch/autograd/graph.py"
_BARRIER = "/torch/distributed/distributed_c10d.py"
_OWN = "/opt/script/train.py"


@pytest.mark.parametrize(
    ("files", "failed", "named"),
    [
        ([_BACKWARD, _OWN], {}, 1),
        ([_OWN, _BARRIER, _BACKWARD], {}, 0),
        ([_BARRIER, None], {}, 1),
        ([_OWN, _OWN], {}, None),
        ([_OWN, _OWN, _BARRIER], {}, None),
        ([_BARRIER, _BACKWARD], {}, None),
        ([_OWN, None], {}, None),
        ([_BACKWARD, _OWN], {"last": ended(1), "restarts": 1}, None),
    ],
)
def test_of_ranks_that_hang_the_one_that_the_others_wait_for_is_named(
    files: list[str | None], failed: dict[str, Any], named: int | None, tmp_path: Path
) -> None:
    """Also if it was stopped, and printed no stack trace; not if there are several or none.

    Nor is one after a failure, or on GPUs, where stacks don't tell.
    """
    pods = [runs(rank, **failed) for rank in range(len(files))]
    tracked, run = seen(job("Running", workers=len(files) - 1), *pods), Run(tmp_path)
    for rank, file in enumerate(files):
        where = f'  File "{file}", line 1 in f'
        dump = ["Current thread 0x01 (most recent call first):", where] if file else []
        texts = [f"step 5 of {rank}", *dump]
        log = run.log(rank, tracked.replicas[rank].container_id)
        log.path.write_text("".join(f"{STAMP} {text}\n" for text in texts))
    ends = LogEnds(tracked, run)
    assert [each.number for each in ends.silent()] == ([] if named is None else [named])
    if not failed:
        assert ends.relevant() == [f"step 5 of {named or 0}"]
    for each in pods:
        each["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    tracked.see_pods(pods)
    assert ends.silent() == []


def test_a_long_line_is_cut_as_a_result_has_to_fit_into_a_config_map(tmp_path: Path) -> None:
    tracked, run = seen("Failed", pod(0, state=ended(1, "it"))), Run(tmp_path)
    log = run.log(0, tracked.failures[0].exit.container_id)
    log.path.write_text(f"{STAMP} step 5 {'of' * 2**16}\n")
    [shown] = LogEnds(tracked, run).relevant()
    assert (shown[:8], len(shown)) == ("step 5 o", 1000)


_DUMP = [
    "Thread 0x00007f0a1b7fe6c0 (most recent call first):",
    '  File "/usr/lib/python3.13/threading.py", line 359 in wait',
    "",
    "Current thread 0x00007f0a3f0c1040 (most recent call first):",
    '  File "/opt/script/train.py", line 48 in fail',
    '  File "/opt/script/train.py", line 60 in <module>',
]


def test_the_last_dumps_innermost_frames_of_the_main_thread_count_and_the_log_before_it() -> None:
    log = ["step 5", *_DUMP]
    frames = ["/opt/script/train.py:48 in fail", "/opt/script/train.py:60 in <module>"]
    assert stack_frames([*log, "something else"]) == frames
    assert before_stacks(log) == ["step 5"]
    deep = ["Thread 0x01 (most recent call first):"]
    deep += [f'  File "a.py", line {number} in f' for number in range(20)]
    assert stack_frames([*_DUMP, *deep]) == [f"a.py:{number} in f" for number in range(6)]
    assert stack_frames(["Traceback (most recent call last):", '  File "a.py", line 1']) == []


def test_a_container_started_again_shows_its_kept_log(tmp_path: Path) -> None:
    run = Run(tmp_path)
    last = ended(3, "its message", container="containerd://first")
    tracked = seen("Failed", runs(0, last=last, restarts=1))
    assert LogEnds(tracked, run).relevant() == ["its message"], "for want of a log"
    for container, text in (("first", "why"), ("0-1", "it begins")):
        run.log(0, container).path.write_text(f"{STAMP} {text}\n")
    assert LogEnds(tracked, run).relevant() == ["why"]


def test_the_whole_of_a_message_is_the_last_one_in_the_log_of_its_replica(tmp_path: Path) -> None:
    tracked = seen("Succeeded", pod(0, state=ended(0, "{}")))
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
