"""Runs the tools of local clusters: with a limit, line by line, and ended when asked to stop."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO

ANSWER_LIMIT = 30.0
"""Seconds for what only asks."""
_PAUSE = 0.1
_LONGEST = 4000


class CommandFailed(RuntimeError):
    """A program that failed, ran too long or can't be run; the text has the end of what it said."""


def run(
    *command: str,
    variables: Mapping[str, str] | None = None,
    limit: float = ANSWER_LIMIT,
    line: Callable[[str], None] = lambda _text: None,
    cancelled: threading.Event | None = None,
) -> str:
    """Run a program and return what it printed on standard output.

    Args:
        command: The program and its arguments; never anything secret.
        variables: Environment variables besides this process's own.
        limit: Seconds until it is killed.
        line: Is given each line as it comes, of standard output and standard error.
        cancelled: Set once the person pressed Ctrl-C: then it is ended.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
        InterruptedError: the person pressed Ctrl-C.
    """
    shown = " ".join(command)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(variables or {})},
            text=True,
            errors="replace",
            start_new_session=True,  # so that its children can be ended with it
        )
    except OSError as error:
        raise CommandFailed(f"`{shown}` can't be run: {error}") from error
    printed, complained = _Lines(process.stdout, line), _Lines(process.stderr, line)
    try:
        in_time = _ended(process, limit, cancelled)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    output, errors = printed.end(), complained.end()
    said = (errors.strip() or output.strip() or "it printed nothing")[-_LONGEST:]
    if not in_time:
        if cancelled is not None and cancelled.is_set():
            raise InterruptedError(f"`{shown}` was interrupted")
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s; it said: {said}")
    if process.returncode != 0:
        raise CommandFailed(f"`{shown}` failed with {process.returncode}: {said}")
    return output


def _ended(
    process: "subprocess.Popen[str]", limit: float, cancelled: threading.Event | None
) -> bool:
    """Wait; return False when the limit or the person came first."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline and not (cancelled is not None and cancelled.is_set()):
        try:
            process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            continue
        return True
    return False


class _Lines:
    """What a program writes to one of its two outputs, read as it comes."""

    def __init__(self, stream: IO[str] | None, line: Callable[[str], None]) -> None:
        self._stream, self._line = stream, line
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        if self._stream is not None:
            with self._stream as stream:
                for text in stream:
                    self._lines.append(text)
                    self._line(text.rstrip("\n"))

    def end(self) -> str:
        """Return all of it, once the program has ended."""
        # A child that outlives the program would keep the stream open; nobody waits for it.
        self._thread.join(1)
        return "".join(self._lines)
