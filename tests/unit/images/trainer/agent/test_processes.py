"""What the processes of a pod leave behind, made into one message that fits."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_trainer.agent import processes


def _leave(directory: Path, name: str, message: dict[str, Any]) -> None:
    (directory / f"{name}.json").write_text(json.dumps(message))


def test_a_pod_reports_its_lowest_rank_with_the_samples_of_all(tmp_path: Path) -> None:
    assert processes.merged(tmp_path, 0, 2) == {}
    (tmp_path / "0.json").write_text("no JSON")
    for rank in (10, 9):
        _leave(tmp_path, str(rank), {"rank": rank, "accuracy": 0.5, "samples_seen": rank})
    assert processes.merged(tmp_path, 0, 2) == {"rank": 9, "accuracy": 0.5, "samples_seen": 19}


@pytest.mark.parametrize(
    "silent", [{"rank": 1}, {"samples_seen": "many"}, {"samples_seen": [1]}, None]
)
def test_missing_samples_leave_out_the_sum(tmp_path: Path, silent: dict[str, Any] | None) -> None:
    _leave(tmp_path, "0", {"rank": 0, "accuracy": 0.5, "samples_seen": 100})
    if silent is not None:
        _leave(tmp_path, "1", silent)
    assert processes.merged(tmp_path, 0, 2) == {"rank": 0, "accuracy": 0.5}


def test_after_a_failure_it_is_the_message_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    assert "exited with code 3" in processes.merged(tmp_path, 3, 2)["error"]
    assert "was terminated by SIGKILL" in processes.merged(tmp_path, 137, 2)["error"]
    _leave(tmp_path, "0", {"rank": 0, "error": "connection closed by peer"})
    _leave(tmp_path, "first-failure", {"rank": 1, "error": "ValueError: x"})
    assert processes.merged(tmp_path, 1, 2) == {"rank": 1, "error": "ValueError: x"}


def _first(directory: Path, *codes: int, logs: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    for rank in range(len(codes)):
        log = directory / f"logs/run/attempt_0/{rank}/stderr.log"
        log.parent.mkdir(parents=True)
        log.write_text(logs[rank] if logs else "")
        os.utime(log, (rank, rank))
    failed = {
        rank: SimpleNamespace(local_rank=rank, exitcode=code, pid=7)
        for rank, code in enumerate(codes)
    }
    code = processes._first_failure(failed, directory)
    return code, json.loads((directory / processes.FIRST_FAILURE).read_text())


def test_of_several_processes_the_first_to_fail_by_itself_is_named(tmp_path: Path) -> None:
    """Not one that lost it, nor one that torchrun ended, whichever wrote first."""
    record = {"rank": 1, "error": "ValueError: x", "from": "program", "pid": 7}
    _leave(tmp_path, "failed-0", {"rank": 0, "error": "RuntimeError: y", "from": "peer", "pid": 7})
    _leave(tmp_path, "failed-1", record)
    os.utime(tmp_path / "failed-0.json", (1, 1))
    expected = {name: value for name, value in record.items() if name != "pid"}
    assert _first(tmp_path, 1, 1, -15) == (1, expected)


def test_of_a_log_of_any_length_its_end_is_read(tmp_path: Path) -> None:
    trace = f"{_TRACE}ValueError: label 11\n"
    code, message = _first(tmp_path, 1, -15, logs=("w" * 9**7 + "\n" + trace, ""))
    assert (code, message["error"], message["rank"]) == (1, "ValueError: label 11", 0)
    assert len(json.dumps(message)) < 2 * processes.LAST_BYTES


def test_torchrun_copies_a_line_of_any_length_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("one\n" + "w" * (processes.LAST_BYTES + 1))
    with processes.in_pieces(str(tmp_path / "stderr.log"), errors="replace") as log:
        assert log.readline() == "one\n"
        assert len(log.readline()) == processes.LAST_BYTES
        assert (log.readline(), log.readline()) == ("w", "")


_TRACE = 'Traceback (most recent call last):\n  File "/opt/script/train.py", line 40, in f\n'
_NOISE = [
    f"Exception in thread Thread-1 (_pin_memory_loop):\n{_TRACE}",
    f"Exception ignored in: <function Held.__del__ at 0x7f>\n{_TRACE}",
    f"--- Logging error ---\n{_TRACE}",
]


@pytest.mark.parametrize("noise", _NOISE, ids=["thread", "destructor", "a log's handler"])
@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_the_error_in_a_log_is_no_threads_nor_what_follows_it(noise: str, prefix: str) -> None:
    noise = f"{noise}ConnectionResetError: [Errno 104] Connection reset by peer\n"
    error = f"{_TRACE}ValueError: label 11\nwhile reading: shard 3\n"
    error = "".join(f"{prefix}{line}\n" for line in error.splitlines())
    warning = "/usr/lib/resource_tracker.py:254: UserWarning: leaked semaphores\n  warnings.warn(\n"
    found = processes.from_log(noise + error + noise + warning, 1)
    assert found["error"] == "ValueError: label 11"
    assert found["at"] == "train.py:40"
    assert processes.from_log(noise, 1)["error"] == "the program exited with code 1"


def test_lines_that_continue_an_expression_are_no_error_and_a_group_has_its_first() -> None:
    expression = f"{_TRACE}    loss = (a\n            + b)\n    ~~^\n"
    found = processes.from_log(f"{expression}ValueError: label 11\n", 1)
    assert found["error"] == "ValueError: label 11"
    frame = '  File "/opt/script/train.py", line 2, in f\n'
    lines = ["  + Exception Group Traceback (most recent call last):", f"  | {frame.rstrip()}"]
    found = processes.from_log("\n".join([*lines, "  | ExceptionGroup: training"]), 1)
    assert (found["error"], found["at"]) == ("ExceptionGroup: training", "train.py:2")


@given(st.lists(st.sampled_from(["", "  x", "|", "y: z", *_TRACE.splitlines(), *_NOISE])))
def test_any_text_has_an_error_of_one_line_or_none(lines: list[str]) -> None:
    error = processes.from_log("\n".join(lines), 1)["error"]
    assert error.strip()
    assert len(error.splitlines()) == 1
