"""A long command says what it takes, has a limit, and shows its log's end when it fails."""

import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import pytest
from rich.console import Console

from scripts.setup import steps
from scripts.setup.steps import StepFailed, Steps


def run(steps: Steps, script: str, limit: float = 20) -> None:
    command = ["sh", "-c", script]
    steps.run("Building it", command, log="it", estimate="2 min, 1 GB", limit=limit)


def test_a_steps_variables_are_added_to_our_own(
    console: Console, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:1")
    command, own = ["sh", "-c", "echo $http_proxy $MINE"], {"MINE": "yes"}
    Steps(console).run("Reading", command, log="it", estimate="1 s", limit=20, variables=own)
    assert (cache / "logs" / "it.log").read_text() == "http://proxy:1 yes\n"


def test_a_failed_step_shows_its_status_or_limit_and_log(console: Console, cache: Path) -> None:
    with pytest.raises(StepFailed) as failed:
        run(Steps(console), "seq 100; echo why >&2; exit 3")
    text = str(failed.value)
    assert text.startswith("Building it: exited with 3 after 0 s. The end of ")
    assert str(cache / "logs" / "it.log") in text
    assert text.endswith("  100\n  why")
    assert "\n  50\n" not in text
    with pytest.raises(StepFailed, match="No such file"):
        Steps(console).run("Building it", ["/nowhere/go"], log="it", estimate="1 s", limit=1)
    with pytest.raises(StepFailed, match="did not finish within 0 s"):
        run(Steps(console), "sleep 60", limit=0.3)


def test_steps_at_once_name_their_lines(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_HEARTBEAT", 0.02)
    monkeypatch.setattr(steps, "_PAUSE", 0.02)
    monkeypatch.setattr(steps, "duration", lambda _seconds: "0 s")
    names = [f"Building {number}" for number in range(4)]
    with Steps(console) as running, ThreadPoolExecutor() as pool:
        for name in names:
            command = ["sleep", "0.3"]
            pool.submit(running.run, name, command, log=name, estimate="1 s", limit=20)
    lines = console.export_text().splitlines()
    for name in names:
        about = [line for line in lines if name in line]
        assert about[0] == f"{name} (about 1 s)"
        assert about[-1] == f"  done in 0 s: {name}"
        assert {*about[1:-1]} == {f"  0 s so far: {name}"}


def test_a_stopped_set_up_ends_what_has_a_limit(console: Console, tmp_path: Path) -> None:
    started, busy = tmp_path / "started", tmp_path / "busy"
    with ThreadPoolExecutor() as pool:
        with Steps(console) as running:
            install = pool.submit(run, running, f"touch {busy}; sleep 0.7; rm {busy}", inf)
            build = pool.submit(run, running, f"touch {started}; sleep 60")
            while not (started.exists() and busy.exists()):
                time.sleep(0.01)
            running.__exit__(KeyboardInterrupt, None, None)
        with pytest.raises(StepFailed, match="stopped"):
            build.result(timeout=10)
        install.result(timeout=10)
        assert not busy.exists()
        started.unlink()
        with pytest.raises(StepFailed, match="stopped"):
            run(running, f"touch {started}", inf)
        assert not started.exists()
