"""The CLI is left to end by itself when the person presses Ctrl-C."""

import signal
from pathlib import Path

import pytest

from core import toolchain
from scripts.cli.backend import INTERRUPTED, Cli


def pulumi(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Cli:
    """A CLI that is a shell script."""
    program = directory / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(toolchain, "path", lambda _name: program)
    return Cli("dev")


def test_the_clis_status_is_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = pulumi(tmp_path, monkeypatch, 'test "$3 $4" = "--stack dev" && exit 7')
    assert cli.run("up", "--yes") == 7


def test_ctrl_c_is_left_to_the_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal sends it to both; here the script stands for the terminal as well."""
    done = tmp_path / "done"
    script = f"kill -INT $PPID; sleep 0.2; kill -INT $PPID; sleep 0.2; touch {done}; exit 3"
    before = signal.getsignal(signal.SIGINT)
    assert pulumi(tmp_path, monkeypatch, script).run("up") == INTERRUPTED == 130
    assert done.exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_ctrl_c_to_the_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a pipeline or a supervisor ends a command, which knows its own process only."""
    script = "trap 'exit 5' INT; kill -TERM $PPID; while :; do sleep 0.1; done"
    before = signal.getsignal(signal.SIGTERM)
    assert pulumi(tmp_path, monkeypatch, script).run("up") == INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) is before
