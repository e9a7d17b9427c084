"""A look at a program from beside it shows where it stands, and changes nothing about it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.paths import CHECKOUT
from slipway_trainer.agent.inside import Process
from tests.unit.not_none import not_none

_LIMIT_SECONDS = 30
_WAITING = """
import os, sys
def waits_for_its_peer():
    print("begun", flush=True)
    print(sys.stdin.readline(), end="", flush=True)
waits_for_its_peer()
"""
_RANK = "987654"
"""No other process of this machine has it."""


@contextmanager
def python(program: str, paths: list[str], directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python that has begun, as the image starts it."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(paths), "RANK": _RANK}
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**environment, "MARK": "of the program"},
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def ours() -> list[str]:
    return [str(CHECKOUT / "images/trainer/python"), str(CHECKOUT / "images/trainer")]


def test_a_rank_that_waits_shows_where_and_goes_on(ours: list[str], tmp_path: Path) -> None:
    with python(_WAITING, ours, tmp_path) as process:
        looked_at = Process(process.pid, ["python3"], {})
        for _ in range(2):
            shown = not_none(looked_at.stack())
            assert "in waits_for_its_peer" in shown
            assert shown.count("Current thread") == 1, "of an earlier look nothing is shown"
        out, _ = process.communicate("it goes on\n", timeout=_LIMIT_SECONDS)
        assert (out, process.returncode) == ("it goes on\n", 0)


def test_a_forked_worker_shows_its_own_stack(ours: list[str], tmp_path: Path) -> None:
    program = """
import os, time
if (child := os.fork()) == 0:
    def loads_data():
        print("begun", os.getpid(), sep="\\n", flush=True)
        time.sleep(600)
    loads_data()
time.sleep(600)
"""
    with python(program, ours, tmp_path) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert "in loads_data" in not_none(Process(child, ["python3"], {}).stack())
        finally:
            os.kill(child, signal.SIGKILL)


def test_another_program_gets_no_signal(tmp_path: Path) -> None:
    with python(_WAITING, [], tmp_path) as process:
        assert Process(process.pid, ["python3"], {}).stack() is None
        out, _ = process.communicate("it goes on\n", timeout=_LIMIT_SECONDS)
        assert (out, process.returncode) == ("it goes on\n", 0)


def test_a_program_without_an_answer_ends_at_the_limit(ours: list[str], tmp_path: Path) -> None:
    with python(_WAITING, ours, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        with pytest.raises(TimeoutError, match="no response in 2 s"):
            Process(process.pid, ["python3"], {}).stack()
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate("it goes on\n", timeout=_LIMIT_SECONDS)
        assert (out, process.returncode) == ("it goes on\n", 0)


def test_a_shell_has_the_programs_place_and_variables(ours: list[str], tmp_path: Path) -> None:
    with python(_WAITING, ours, tmp_path):
        ended = subprocess.run(
            [sys.executable, "-m", "slipway_trainer.inside", "shell", _RANK],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(ours)},
            input="pwd; echo $MARK",
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=True,
        )
        assert ended.stdout.splitlines() == [str(tmp_path), "of the program"]
