"""A look at a program from beside it shows where it stands, and changes nothing about it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from slipway_trainer.agent.inside import Process
from tests.unit.images.trainer.container import SITE, Container, ended, line
from tests.unit.not_none import not_none

_WAITING = """
import os, sys
def waits_for_its_peer():
    print("begun", flush=True)
    print(sys.stdin.readline(), end="", flush=True)
waits_for_its_peer()
"""


@contextmanager
def python(container: Container, program: str = _WAITING) -> Iterator[Popen[str]]:
    """A Python that has begun, as the image starts it."""
    with container.start("-c", program) as process:
        try:
            assert line(process) == "begun\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def ours(tmp_path: Path) -> Container:
    return Container(tmp_path, SITE)


def test_a_forked_worker_shows_its_own_stack(ours: Container) -> None:
    program = """
import os, time
if (child := os.fork()) == 0:
    def loads_data():
        print("begun", os.getpid(), sep="\\n", flush=True)
        time.sleep(600)
    loads_data()
time.sleep(600)
"""
    with python(ours, program) as process:
        child = int(line(process))
        try:
            for _ in range(2):
                shown = not_none(Process(child, ["python3"], {}).stack())
                assert "in loads_data" in shown
                assert shown.count("Current thread") == 1, "of an earlier look nothing is shown"
        finally:
            os.kill(child, signal.SIGKILL)


def test_another_program_gets_no_signal(tmp_path: Path) -> None:
    with python(Container(tmp_path)) as process:
        assert Process(process.pid, ["python3"], {}).stack() is None
        assert ended(process, text="it goes on\n").out == "it goes on\n"


def test_a_program_without_an_answer_ends_at_the_limit(ours: Container) -> None:
    with python(ours) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        with pytest.raises(TimeoutError, match="no response in 2 s"):
            Process(process.pid, ["python3"], {}).stack()
        process.send_signal(signal.SIGCONT)
        assert ended(process, text="it goes on\n").out == "it goes on\n"
