"""A long command has a log, a limit, and ends with its children when it is stopped."""

import threading
import time
from pathlib import Path

import pytest

from core.process import CommandFailed, run, run_logged, tail


def test_its_output_is_logged_and_past_its_limit_it_is_ended_with_its_children(
    tmp_path: Path,
) -> None:
    log, alive = tmp_path / "log", tmp_path / "alive"

    def logged(script: str, limit: float) -> int | None:
        with log.open("wb") as file:
            command, nothing = ["sh", "-c", script], lambda _seconds: None
            return run_logged(command, file, limit=limit, pause=0.05, tick=nothing)

    assert logged("echo one; echo two >&2; exit 3", 20) == 3
    assert log.read_text() == "one\ntwo\n"
    assert tail(log, lines=1) == ["  two"]
    assert logged(f"(sleep 1; touch {alive}) & wait", 0.2) is None
    time.sleep(1.2)
    assert not alive.exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["ls", "/nowhere"], r"`ls /nowhere` failed with exit code 2: .*No such file"),
        (["sleep", "60"], "`sleep 60` did not finish within 0 s"),
        (["/nowhere/program"], "`/nowhere/program` can't be run"),
    ],
)
def test_a_command_that_fails_says_how(command: list[str], says: str) -> None:
    with pytest.raises(CommandFailed, match=says):
        run(*command, limit=0.1 if command[0] == "sleep" else 20)


def test_a_command_is_waited_for_neither_longer_than_it_runs_nor_with_what_outlives_it() -> None:
    began = time.monotonic()
    for _ in range(10):
        run("true")
    assert time.monotonic() - began < 1
    assert run("sh", "-c", "echo one; sleep 30 & echo two") == "one\ntwo\n"
    assert time.monotonic() - began < 10


def test_lines_are_reported_before_the_command_ends_also_where_one_is_written_over() -> None:
    cancelled = threading.Event()
    lines: list[str] = []

    def line(text: str) -> None:
        lines.append(text)
        if text == "half":
            cancelled.set()

    with pytest.raises(InterruptedError, match="was interrupted"):
        run("sh", "-c", r"printf 'none\rhalf\rall'; sleep 30", line=line, cancelled=cancelled)
    assert lines == ["none", "half"]


def test_input_that_no_pipe_holds_reaches_a_program_that_reads_late() -> None:
    lines: list[str] = []
    command = ("sh", "-c", "sleep 0.5; echo aside >&2; wc -c")
    assert run(*command, text="x" * 1_000_000, line=lines.append).strip() == "1000000"
    assert sorted(lines) == ["1000000", "aside"]
