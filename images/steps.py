"""The long commands of a build: logged, with a limit, and ended when the person asks to stop."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from core.lock import Cancelled

LIMIT = 1800.0
_PAUSE = 1.0
_TAIL_LINES = 30
_TAIL_BYTES = 16384
_STEP_LENGTH = 60
BUSY = "sealing memfd copy: Device or resource busy"
"""What buildah and podman say, and nothing has run yet, when they could not start a container: the
kernel still held a page of the copy of themselves that they start it from. It passes.

https://github.com/containers/storage/blob/main/pkg/unshare/unshare.c
"""
ATTEMPTS = 3
"""How often a command is begun that says so."""
_MARKS = ("STEP ", "Step ", "#", "I: ")
"""How buildah, docker (old and new builder) and mmdebstrap begin the lines that name a step."""


class BuildFailed(Exception):
    """A command failed; the text holds the end of its log, and where the whole log is."""


class Reporter(Protocol):
    """Whoever waits; `core.context.Context` is one."""

    @property
    def cancelled(self) -> threading.Event:
        """Set once the person pressed Ctrl-C."""

    def status(self, message: str) -> None:
        """Show `message` until the next one."""

    def info(self, message: str) -> None:
        """Print `message` as a line that stays."""


@dataclass(frozen=True)
class Runner:
    """Runs the commands of one build.

    Args:
        log: Takes all that they print.
        reporter: Is told how far they are.
        environment: Variables besides this process's own.
    """

    log: Path
    reporter: Reporter
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, title: str, command: Sequence[str], limit: float = LIMIT) -> None:
        """Run `command` to its end.

        Raises:
            BuildFailed: it could not be started, failed, or ran longer than `limit` seconds.
            core.lock.Cancelled: the person asked to stop; it has been ended.
        """
        began = time.monotonic()
        for _ in range(ATTEMPTS):
            start, code = self._attempt(title, command, limit)
            if code in {0, None} or BUSY.encode() not in self._logged(start):
                break
        if code != 0:
            after = f"after {time.monotonic() - began:.0f} s"
            ended = f"ran longer than its limit and was ended {after}"
            raise self._failed(title, ended if code is None else f"failed with {code} {after}")

    def _attempt(self, title: str, command: Sequence[str], limit: float) -> tuple[int, int | None]:
        """Return from which byte on the log is this attempt's, and the exit code if it ended."""
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            start = log.tell()
            process = self._start(title, command, log.fileno())
            return start, self._finish(title, process, limit, start)

    def _start(self, title: str, command: Sequence[str], log: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                (*_own_world(), *command),
                stdin=subprocess.DEVNULL,
                umask=0o022,  # what it makes is for other users, too
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,  # so that its children can be ended with it
            )
        except OSError as error:
            raise self._failed(title, f"can't be run: {error}") from error

    def _finish(
        self, title: str, process: subprocess.Popen[bytes], limit: float, start: int
    ) -> int | None:
        """Return the exit code, or None when the limit came first."""
        began = time.monotonic()
        step = StepName(self.log, start)
        try:
            while True:
                try:
                    return process.wait(_PAUSE)
                except subprocess.TimeoutExpired:
                    seconds = time.monotonic() - began
                self.reporter.status(f"{title}{step.latest()}")
                if self.reporter.cancelled.is_set():
                    raise Cancelled(f"{title}: stopped")
                if seconds > limit:
                    return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _failed(self, title: str, what: str) -> BuildFailed:
        start = max(0, self.log.stat().st_size - _TAIL_BYTES)
        tail = self._logged(start).decode(errors="replace").splitlines()[-_TAIL_LINES:]
        lines = [f"{title}: {what}. The end of its log:", *(f"  {line}" for line in tail)]
        return BuildFailed("\n".join([*lines, f"The whole log is {self.log}"]))

    def _logged(self, start: int) -> bytes:
        with self.log.open("rb") as log:
            log.seek(start)
            return log.read()


def _own_world() -> tuple[str, ...]:
    """Return a prefix for commands: all their processes and mounts go with them, and they with us.

    A build step has children in sessions of their own and mounts that a killed builder would
    leave in the host's table. Both need root; others' builders make a user namespace themselves.
    """
    if os.geteuid() != 0:
        return ()
    namespaces = ("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
    return ("setpriv", "--pdeathsig", "KILL", "--", *namespaces, "--")


@dataclass
class StepName:
    """Which step a command is at, by the lines that it has logged.

    Args:
        log: Where to.
        position: The byte from which on the log is this command's.
    """

    log: Path
    position: int
    _name: str = ""

    def latest(self) -> str:
        """Return `: ` and the last line that names a step; nothing before the first."""
        with self.log.open("rb") as file:
            file.seek(self.position)
            new = file.read()
        # The last line may not be complete yet; it is read again.
        complete = new[: new.rfind(b"\n") + 1]
        self.position += len(complete)
        for line in complete.decode(errors="replace").splitlines():
            if line.startswith(_MARKS):
                self._name = f": {' '.join(line.split())[:_STEP_LENGTH]}"
        return self._name
