"""The CLI is left to end by itself when the person presses Ctrl-C."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from core import toolchain
from scripts.cli.backend import INTERRUPTED, Cli
from tests.unit.shell_program import shell_program


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Cli]:
    """Return what makes a CLI that is a shell script."""
    program = tmp_path / "pulumi"
    monkeypatch.setattr(toolchain, "path", lambda _name: program)

    def made(script: str) -> Cli:
        shell_program(program, script)
        return Cli("dev")

    return made


def test_the_clis_status_is_the_commands(pulumi: Callable[[str], Cli]) -> None:
    assert pulumi('test "$3 $4" = "--stack dev" && exit 7').run("up", "--yes") == 7


@pytest.mark.parametrize(
    ("number", "script"),
    [
        # The terminal sends it to both; here the script stands for the terminal as well.
        ("INT", "kill -INT $PPID; sleep 0.2; kill -INT $PPID; sleep 0.2; touch done; exit 3"),
        # So a pipeline or a supervisor ends a command, which knows its own process only.
        ("TERM", "trap 'touch done; exit 5' INT; kill -TERM $PPID; while :; do sleep 0.1; done"),
    ],
)
def test_ctrl_c_and_sigterm_are_left_to_the_cli_as_ctrl_c(
    number: str, script: str, pulumi: Callable[[str], Cli], tmp_path: Path
) -> None:
    handled = signal.Signals[f"SIG{number}"]
    before = signal.getsignal(handled)
    script = script.replace("touch done", f"touch {tmp_path}/done")
    assert pulumi(script).run("up") == INTERRUPTED == 130
    assert (tmp_path / "done").exists()
    assert signal.getsignal(handled) is before
