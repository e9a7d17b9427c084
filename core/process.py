"""Runs a long command: its output goes to a log, and it has a limit and can be stopped."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO


def run_logged(  # noqa: PLR0913  # what a process takes
    command: Sequence[str | Path],
    log: IO[bytes],
    *,
    limit: float,
    tick: Callable[[float], None],
    pause: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> int | None:
    """Run a command to its end, in a session of its own, so that its children end with it.

    Args:
        command: Program and arguments.
        log: Takes its standard output and standard error.
        limit: Seconds after which it is killed.
        tick: Is called every `pause` seconds with the seconds so far. What it raises ends the
            command.
        pause: Seconds.
        cwd: Where it runs.
        env: All of its environment; None for this process's own.
        umask: For the files it creates; -1 for this process's own.

    Returns:
        The exit status, or None when it ran longer than `limit`.

    Raises:
        OSError: it can't be started.
    """
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        umask=umask,
        start_new_session=True,
    )
    try:
        while True:
            left = began + limit - time.monotonic()
            try:
                return process.wait(max(0.0, min(pause, left)))
            except subprocess.TimeoutExpired:
                if left <= 0:
                    return None
            tick(time.monotonic() - began)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tail(log: Path, *, lines: int, start: int = 0) -> list[str]:
    """Return a log's last lines, indented by two spaces, from byte `start` on at the earliest."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 16384))
        return [f"  {line}" for line in file.read().decode(errors="replace").splitlines()[-lines:]]
