"""Runs the commands of a build: logged, with a limit, and ended when the user stops the program."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from core.context import Context
from core.process import run_logged, tail

LIMIT = 1800.0
"""Seconds that one command may take."""
PUSH_LIMIT = 3600.0
"""Seconds of one to push: the image for GPUs is 2.6 GB, which takes 45 minutes at 8 Mbit/s."""
HOLDING = LIMIT + 3 * PUSH_LIMIT
"""Seconds of the longest work that others wait for: a load, and a push by three commands."""
_PAUSE = 1.0
BUSY = "sealing memfd copy: Device or resource busy"
"""What buildah and podman print, before anything has run, while the kernel still holds a page of
the copy of themselves that they start a container from. It passes:
https://github.com/containers/storage/blob/main/pkg/unshare/unshare.c"""
ATTEMPTS = 3
"""How often a command that prints `BUSY` is started."""


class BuildFailed(Exception):
    """A command failed; the text holds the end of its log, and the path of the full log."""


@dataclass(frozen=True)
class Runner:
    """Runs the commands of one build."""

    log: Path
    """Takes all that they print."""
    reporter: Context
    """Shows which step they are at."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables besides this process's own."""

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")

    def run(self, title: str, command: Sequence[str], limit: float = LIMIT) -> None:
        """Run `command`; raises `BuildFailed`, also after `limit`, or `InterruptedError`."""
        began = time.monotonic()
        for _ in range(ATTEMPTS):
            start, code = self._attempt(title, command, limit)
            if code in {0, None} or BUSY.encode() not in self.log.read_bytes()[start:]:
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
            start, step = log.tell(), ""

            def tick(_seconds: float) -> None:
                nonlocal step
                step = _latest_step(self.log, start) or step
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
                self._mask()
        return start, code

    def _mask(self) -> None:
        """Take the proxies' logins out of the log: a step may have printed its variables."""
        for login in logins(self.environment):
            self.log.write_bytes(self.log.read_bytes().replace(login.encode(), b"***"))

    def _failed(self, title: str, what: str) -> BuildFailed:
        lines = [f"{title}: {what}. The end of its log:", *tail(self.log, lines=30)]
        return BuildFailed("\n".join([*lines, f"The whole log is {self.log}"]))


def logins(variables: Mapping[str, str]) -> set[str]:
    """Return the `user:password` in the addresses of proxies, as these have them."""
    proxies = (value for name, value in variables.items() if name.lower().endswith("_proxy"))
    return {each.rpartition("@")[0].rpartition("/")[2] for each in proxies} - {""}


def _isolated() -> tuple[str, ...]:
    """Return a prefix for commands: their processes and mounts end with them, and they with us."""
    if os.geteuid() != 0:
        return ()  # other users' builders make a user namespace
    namespaces = ("unshare", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child")
    return ("setpriv", "--pdeathsig", "KILL", "--", *namespaces, "--")


def _latest_step(log: Path, start: int) -> str:
    """Return the last line that names a step, of those at the end of a log; empty without one."""
    lines = (" ".join(line.split()) for line in tail(log, lines=200, start=start))
    # As buildah, docker (old and new builder) and mmdebstrap begin the lines that name a step.
    steps = [line for line in lines if line.startswith(("STEP ", "Step ", "#", "I: "))]
    return steps[-1][:60] if steps else ""
