"""Runs the pulumi CLI on one stack, in the environment that `make env` prints."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from core import toolchain
from core.paths import CHECKOUT
from scripts.cli import CommandError
from scripts.environment import applied

_QUERY_LIMIT = 120  # seconds; these only read or write the stack's file
INTERRUPTED = 128 + signal.SIGINT
"""A shell's exit status for a command that Ctrl-C has ended."""


class PulumiFailed(CommandError):
    """The CLI refused something; the text is its output."""


@dataclass(frozen=True)
class Cli:
    """The CLI, bound to a stack."""

    stack: str

    def run(self, *arguments: str, **variables: str) -> int:
        """Runs a command that talks to the user itself, for as long as it takes.

        Args:
            arguments: The command and its options; the stack is added.
            variables: Environment variables on top.

        Returns:
            Its exit status; `INTERRUPTED` when Ctrl-C has ended it.
        """
        with (
            _leaving_interrupts_to_pulumi() as pressed,
            subprocess.Popen(
                self._command(arguments), cwd=CHECKOUT, env={**applied(os.environ), **variables}
            ) as process,
        ):
            code = process.wait()
        return INTERRUPTED if pressed and code != 0 else code

    def query(self, *arguments: str, stdin: str = "") -> str:
        """Runs a short command and returns what it prints.

        Args:
            arguments: The command and its options; the stack is added.
            stdin: Its standard input.

        Raises:
            PulumiFailed: it exited non-zero, or did not end in time.
        """
        command = self._command(arguments)
        try:
            finished = subprocess.run(
                command,
                cwd=CHECKOUT,
                env=applied(os.environ),
                input=stdin,
                capture_output=True,
                text=True,
                timeout=_QUERY_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PulumiFailed(f"{error}") from error
        if finished.returncode != 0:
            output = finished.stderr.strip() or finished.stdout.strip()
            raise PulumiFailed(f"pulumi {' '.join(arguments)}: {output}")
        return finished.stdout

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(toolchain.path("pulumi")), *arguments, "--stack", self.stack]


@contextmanager
def _leaving_interrupts_to_pulumi() -> Iterator[list[int]]:
    """Go on when Ctrl-C is pressed, and yield a list of how often it was.

    The terminal sends it to pulumi, too, which ends in good order: the first time it cancels what
    it is at, the second time it ends immediately.
    """
    pressed: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
