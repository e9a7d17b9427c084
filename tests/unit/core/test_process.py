"""A long command has a log, a limit, and ends with its children when it is stopped."""

import time
from pathlib import Path

import pytest

from core.process import run_logged, tail


class Stopped(Exception):
    """What a test's tick raises."""


def run(log: Path, script: str, **options: object) -> int | None:
    arguments = {"limit": 20.0, "pause": 0.05, "tick": lambda _seconds: None, **options}
    with log.open("wb") as file:
        return run_logged(["sh", "-c", script], file, **arguments)  # type: ignore[arg-type]


def test_its_output_is_logged_and_its_status_returned(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run(log, "echo one; echo two >&2; exit 3") == 3
    assert log.read_text() == "one\ntwo\n"
    assert tail(log, lines=1) == ["  two"]


def test_past_its_limit_it_is_ended_with_its_children(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    assert run(tmp_path / "log", f"(sleep 1; touch {alive}) & wait", limit=0.2) is None
    time.sleep(1.2)
    assert not alive.exists()


def test_what_is_raised_meanwhile_ends_it(tmp_path: Path) -> None:
    def stop(seconds: float) -> None:
        assert seconds < 10
        raise Stopped

    began = time.monotonic()
    with pytest.raises(Stopped):
        run(tmp_path / "log", "sleep 20", tick=stop)
    assert time.monotonic() - began < 10
