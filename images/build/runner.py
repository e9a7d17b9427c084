"""Run a build's commands with a log and a time limit, and stop them on Ctrl-C."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from core.context import Context
from core.process import run_logged, tail
from images.build.engines import answer

LIMIT = 1800.0
"""Time limit for one command, in seconds."""
PUSH_LIMIT = 3600.0
"""Time limit for a push, in seconds: the GPU image's 2.6 GB take 45 minutes at 8 Mbit/s."""
HOLDING = LIMIT + 3 * PUSH_LIMIT
"""The longest that the lock can be held, in seconds: for a load, and a push in three commands."""
_PAUSE = 1.0
BUSY = "sealing memfd copy: Device or resource busy"
"""A temporary error from buildah and podman, before any step has run. They start containers from an
in-memory copy of themselves, and the kernel is still holding a page of that copy:
https://github.com/containers/storage/blob/main/pkg/unshare/unshare.c"""
ATTEMPTS = 3
"""The maximum number of attempts for a command that prints `BUSY`."""


class BuildFailed(Exception):
    """A build command failed; the message contains the log's tail and the full log's path."""


@dataclass(frozen=True)
class Runner:
    """Runs the commands for one build."""

    log: Path
    """The file that the commands' output goes to."""
    reporter: Context
    """Shows the current step."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the commands, in addition to this process's."""

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")

    def run(self, title: str, command: Sequence[str], limit: float = LIMIT) -> None:
        """Run `command`; raises `BuildFailed`, or `InterruptedError` if the user cancels.

        The command also fails if it takes longer than `limit`, in seconds.
        """
        began = time.monotonic()
        for _ in range(ATTEMPTS):
            start, code = self._attempt(title, command, limit)
            if code in {0, None} or BUSY.encode() not in self.log.read_bytes()[start:]:
                break
        if code != 0:
            after = f"after {time.monotonic() - began:.0f} s"
            ended = f"exceeded its time limit and was stopped {after}"
            raise self._failed(title, ended if code is None else f"exited with {code} {after}")

    def _attempt(self, title: str, command: Sequence[str], limit: float) -> tuple[int, int | None]:
        """Run `command` once; return the offset of its output in the log, and its exit code.

        The exit code is None if the command exceeded `limit` and was stopped.
        """
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            start, step = log.tell(), ""

            def tick(_seconds: float) -> None:
                nonlocal step
                lines = (" ".join(each.split()) for each in tail(self.log, lines=200, start=start))
                # Step prefixes from buildah, docker (old and new builder) and mmdebstrap.
                steps = [each for each in lines if each.startswith(("STEP ", "Step ", "#", "I: "))]
                step = steps[-1][:60] if steps else step
                self.reporter.status(f"{title}: {step}" if step else title)
                if self.reporter.cancelled.is_set():
                    raise InterruptedError(f"{title}: stopped")

            try:
                code = run_logged(
                    (*_isolated(), *command),
                    log,
                    limit=limit,
                    tick=tick,
                    pause=_PAUSE,
                    env={**os.environ, **self.environment},
                    umask=0o022,  # other users read what it creates
                )
            except (FileNotFoundError, PermissionError) as error:
                raise self._failed(title, f"can't be run: {error}") from error
            finally:
                # A step may have printed its environment, with the proxies' credentials.
                for login in logins(self.environment):
                    self.log.write_bytes(self.log.read_bytes().replace(login.encode(), b"***"))
        return start, code

    def _failed(self, title: str, what: str) -> BuildFailed:
        lines = [f"{title}: {what}. The log ends with:", *tail(self.log, lines=30)]
        return BuildFailed("\n".join([*lines, f"The full log is {self.log}"]))


def logins(variables: Mapping[str, str]) -> set[str]:
    """Return the `user:password` parts of the proxy URLs in environment variables."""
    proxies = (value for name, value in variables.items() if name.lower().endswith("_proxy"))
    return {each.rpartition("@")[0].rpartition("/")[2] for each in proxies} - {""}


@cache
def _isolated() -> tuple[str, ...]:
    """Return a prefix for a command line, which makes sure that nothing outlives the command.

    The command's child processes and mounts are removed when it exits, unless this process is in a
    container that may not create namespaces. It is killed if this process dies.
    """
    if os.geteuid() != 0:
        return ()  # rootless builders create a user namespace
    dies = ("setpriv", "--pdeathsig", "KILL", "--")
    alone = (*dies, "unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "--")
    return dies if answer(*alone, "true") is None else alone
