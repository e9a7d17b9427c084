"""What the processes of a pod leave behind, made into one message that fits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_trainer.agent import processes


def test_samples_are_summed_unless_a_process_did_not_say_how_many(tmp_path: Path) -> None:
    def leave(process: int, text: str) -> None:
        (tmp_path / f"{process}.json").write_text(text)

    assert processes.merged(tmp_path, 0, 2) == {}
    leave(2, "no JSON")
    leave(0, '{"rank": 0, "accuracy": 0.5, "samples_seen": 100}')
    assert processes.merged(tmp_path, 0, 2) == {"rank": 0, "accuracy": 0.5}
    for silent in ('{"rank": 1}', '{"samples_seen": "many"}'):
        leave(1, silent)
        assert processes.merged(tmp_path, 0, 2) == {"rank": 0, "accuracy": 0.5}
    leave(1, '{"samples_seen": 11}')
    for declared in (1, 2):  # the program may start more than its pod's one
        assert processes.merged(tmp_path, 0, declared)["samples_seen"] == 111


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
