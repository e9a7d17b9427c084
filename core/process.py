"""Runs other programs: never through a shell, always with a limit."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
        cwd: Its working directory.
        limit: Seconds until it is killed.
        line: Is given each line as it comes, of standard output and standard error.
        cancelled: Set once the user pressed Ctrl-C: then it is ended.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
        InterruptedError: the user pressed Ctrl-C.
    """
    shown = " ".join(command)
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    variables = {**os.environ, **(variables or {})}
    printed, complained, ended = b"", b"", False
    reported = [0, 0]
    deadline = time.monotonic() + limit
    is_cancelled = threading.Event().is_set if cancelled is None else cancelled.is_set
    try:
        with tempfile.TemporaryFile() as stdin:
            # `communicate` sends no more of a pipe's input after a pause.
            stdin.write(text.encode())
            stdin.seek(0)
            with _started(command, cwd=cwd, env=variables, stdin=stdin, **pipes) as process:
                while not ended and time.monotonic() < deadline and not is_cancelled():
                    # A child that outlives the program would keep its output open.
                    exited = process.poll() is not None
                    try:
                        printed, complained = process.communicate(timeout=_PAUSE)
                        ended = True
                    except subprocess.TimeoutExpired as waiting:
                        printed, complained = waiting.stdout or b"", waiting.stderr or b""
                        ended = exited
                    for which, output in enumerate((printed, complained)):
                        seen = _text(output)
                        lines = (seen if ended else seen[: seen.rfind("\n") + 1]).splitlines()
                        for each in lines[reported[which] :]:
                            line(each)
                        reported[which] = len(lines)
    except OSError as error:
        raise CommandFailed(f"`{shown}` can't be run: {error}") from error
    message = _text(complained).strip() or _text(printed).strip() or "it printed nothing"
    message = message[-_LONGEST:]
    if not ended:
        if is_cancelled():
            raise InterruptedError(f"`{shown}` was interrupted")
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s; it printed: {message}")
    if process.returncode != 0:
        raise CommandFailed(f"`{shown}` failed with {process.returncode}: {message}")
    return _text(printed)


def _text(output: bytes) -> str:
    return output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def _started(command: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a command, which with its children ends at the end of the block at the latest."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


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

    `log` takes its standard output and standard error. `tick` is called every `pause` seconds with
    the seconds so far; what it raises ends the command. Without `env` and `umask` (-1) it has this
    process's own.

    Returns:
        The exit status, or None when it ran longer than `limit` seconds.

    Raises:
        OSError: it can't be started.
    """
    began = time.monotonic()
    outputs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
    with _started(command, cwd=cwd, env=env, umask=umask, **outputs) as process:
        while True:
            left = began + limit - time.monotonic()
            try:
                return process.wait(max(0.0, min(pause, left)))
            except subprocess.TimeoutExpired:
                if left <= 0:
                    return None
            tick(time.monotonic() - began)


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
