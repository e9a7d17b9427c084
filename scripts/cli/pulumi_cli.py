"""Runs the pulumi CLI on one stack."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from core import toolchain
from core.paths import CHECKOUT
from core.process import run

_QUERY_LIMIT = 120  # seconds; these only read or write the stack's file
INTERRUPTED = 128 + signal.SIGINT
"""A shell's exit status for a command that Ctrl-C has ended."""


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
                self._command(arguments), cwd=CHECKOUT, env={**os.environ, **variables}
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
            CommandFailed: it exited non-zero, or did not end in time.
        """
        return run(*self._command(arguments), text=stdin, cwd=CHECKOUT, limit=_QUERY_LIMIT)

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
