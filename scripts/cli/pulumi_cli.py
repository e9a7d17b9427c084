"""Runs the pulumi CLI on one stack."""

import os
import signal
import subprocess
from dataclasses import dataclass

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
        """Runs a command that talks to the user itself, with these variables on top.

        Returns:
            Its exit status; `INTERRUPTED` when Ctrl-C has ended it.
        """
        # The terminal sends Ctrl-C to pulumi, too, which ends in good order: the first time it
        # cancels what it is at, the second time it ends immediately.
        pressed: list[int] = []
        before = signal.signal(signal.SIGINT, lambda number, _frame: pressed.append(number))
        try:
            command, env = self._command(arguments), {**os.environ, **variables}
            code = subprocess.run(command, cwd=CHECKOUT, env=env, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)
        return INTERRUPTED if pressed and code != 0 else code

    def query(self, *arguments: str, stdin: str = "") -> str:
        """Runs a short command, which reads `stdin`, and returns what it prints."""
        return run(*self._command(arguments), text=stdin, cwd=CHECKOUT, limit=_QUERY_LIMIT)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(toolchain.path("pulumi")), *arguments, "--stack", self.stack]
