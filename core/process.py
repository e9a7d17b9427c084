"""Runs other programs: never through a shell, always with a limit."""

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

ANSWER_LIMIT = 30.0
"""Seconds for a command that only asks."""
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
    """Run a program, with nothing secret in its command, and return its standard output.

    It reads `text`, has `variables` besides this process's own, and is killed after `limit` seconds
    or once `cancelled` is set. `line` gets each line of its output and errors as it comes.

    Raises:
        CommandFailed: it can't be started, fails, or takes longer than `limit`.
        InterruptedError: the user pressed Ctrl-C.
    """
    shown, reported = " ".join(command), [0, 0]
    with TemporaryFile() as stdin, TemporaryFile() as printed, TemporaryFile() as complained:
        stdin.write(text.encode())
        stdin.seek(0)

        def report(*, ended: bool) -> None:
            for which, file in enumerate((printed, complained)):
                seen = _content(file)
                lines = (seen if ended else seen[: seen.rfind("\n") + 1]).splitlines()
                for each in lines[reported[which] :]:
                    line(each)
                reported[which] = len(lines)

        def tick(_seconds: float) -> None:
            report(ended=False)
            if cancelled is not None and cancelled.is_set():
                raise InterruptedError(f"`{shown}` was interrupted")

        env = {**os.environ, **(variables or {})}
        options: dict[str, Any] = {"stdin": stdin, "stderr": complained, "cwd": cwd, "env": env}
        try:
            status = run_logged(command, printed, limit=limit, tick=tick, pause=0.1, **options)
        except InterruptedError:
            raise
        except OSError as error:
            raise CommandFailed(f"`{shown}` can't be run: {error}") from error
        report(ended=True)
        output = _content(printed)
        message = _content(complained).strip() or output.strip() or "it printed nothing"
    message = message[-4000:]
    if status is None:
        raise CommandFailed(f"`{shown}` did not end within {limit:.0f} s; it printed: {message}")
    if status != 0:
        raise CommandFailed(f"`{shown}` failed with {status}: {message}")
    return output


def _content(file: IO[bytes]) -> str:
    """Return what a program has written so far, and leave where it goes on writing."""
    output = os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
    return output.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def run_logged(
    command: Sequence[str | Path],
    log: IO[bytes],
    *,
    limit: float,
    tick: Callable[[float], None],
    pause: float,
    **options: Any,
) -> int | None:
    """Run a command to its end, in a session of its own, so that its children end with it.

    `log` takes its standard output and standard error. `tick` is called every `pause` seconds with
    the seconds so far; what it raises ends the command. `options` are those of `subprocess.Popen`.
    Returns the exit status, None after more than `limit` seconds; `OSError` if it can't be started.
    """
    began = time.monotonic()
    options = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **options}
    with subprocess.Popen(command, stdout=log, start_new_session=True, **options) as process:
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


def tail(log: Path, *, lines: int, start: int = 0) -> list[str]:
    """Return a log's last lines, indented by two spaces, from byte `start` on at the earliest."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 16384))
        return [f"  {line}" for line in file.read().decode(errors="replace").splitlines()[-lines:]]


def printable(text: str) -> str:
    """Return lines without what moves a terminal's cursor or colors it (ECMA-48, 5.4), as UTF-8."""
    return _CONTROLS.sub("", utf8(text))


def utf8(text: str) -> str:
    """Return a text that can be encoded: lone surrogates, as names of files have, are escaped."""
    return text.encode(errors="backslashreplace").decode()
