"""Runs other programs: never through a shell, always with a limit."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ANSWER_LIMIT = 30.0
"""Seconds for a command that only asks."""
_PAUSE = 0.1
_LONGEST = 4000


class CommandFailed(RuntimeError):
    """A program that failed, ran too long or can't be run; the text ends with what it printed."""


def run(  # noqa: PLR0913  # what a process takes
    *command: str,
    text: str = "",
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit: float = ANSWER_LIMIT,
    line: Callable[[str], None] = lambda _text: None,
    cancelled: threading.Event | None = None,
) -> str:
    """Run a program and return what it printed on standard output.

    Args:
        command: The program and its arguments; never anything secret.
        text: What it reads on standard input.
        variables: Environment variables besides this process's own.
        cwd: Where it runs.
        limit: Seconds until it is killed.
        line: Is given each line as it comes, of standard output and standard error.
        cancelled: Set once the user pressed Ctrl-C: then it is ended.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
        InterruptedError: the user pressed Ctrl-C.
    """
    shown = " ".join(command)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(variables or {})},
            cwd=cwd,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its children can be ended with it
        )
    except OSError as error:
        raise CommandFailed(f"`{shown}` can't be run: {error}") from error
    printed, complained = _Lines(process.stdout, line), _Lines(process.stderr, line)
    try:
        if process.stdin is not None:
            with suppress(BrokenPipeError), process.stdin as stream:
                stream.write(text)
        in_time = _ended(process, printed, limit, cancelled)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    output, errors = printed.end(), complained.end()
    message = (errors.strip() or output.strip() or "it printed nothing")[-_LONGEST:]
    if not in_time:
        if cancelled is not None and cancelled.is_set():
            raise InterruptedError(f"`{shown}` was interrupted")
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s; it printed: {message}")
    if process.returncode != 0:
        raise CommandFailed(f"`{shown}` failed with {process.returncode}: {message}")
    return output


class _Lines:
    """What a program writes to one of its two outputs, read as it comes."""

    def __init__(self, stream: IO[str] | None, line: Callable[[str], None]) -> None:
        self._stream, self._line = stream, line
        self._lines: list[str] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        if self._stream is not None:
            with self._stream as stream:
                for text in stream:
                    self._lines.append(text)
                    self._line(text.rstrip("\n"))

    def end(self) -> str:
        """Return all of it, once the program has ended."""
        # A child that outlives the program would keep the stream open, so the wait is limited.
        self.thread.join(1)
        return "".join(self._lines)


def _ended(
    process: "subprocess.Popen[str]",
    printed: _Lines,
    limit: float,
    cancelled: threading.Event | None,
) -> bool:
    """Wait; return False when the limit or the user came first."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and not (cancelled is not None and cancelled.is_set()):
        # Most end as they close their output, which is noticed immediately, unlike an exit.
        printed.thread.join(_PAUSE)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0 if printed.thread.is_alive() else _PAUSE)
            return True
    return False


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


def json_map(line: str) -> dict[str, Any]:
    """Return the map that a line of JSON holds; an empty one for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
