"""Run other programs without a shell and with a time limit."""

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
"""The default time limit in seconds, for commands that only print information."""
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandFailed(RuntimeError):
    """A program failed, ran too long or could not be started; the message ends with its output."""


def run(  # noqa: PLR0913  # what a process needs
    *command: str,
    text: str = "",
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit: float = ANSWER_LIMIT,
    line: Callable[[str], None] = lambda _text: None,
    cancelled: threading.Event | None = None,
) -> str:
    """Run a program and return its standard output.

    The command must not contain secrets, as errors show it. `text` is the program's standard input;
    `variables` are added to its environment. The program is killed after `limit` seconds or once
    `cancelled` is set. `line` is called with each line that the program prints.

    Raises:
        CommandFailed: The program could not be started, failed, or ran longer than `limit`.
        InterruptedError: The user pressed Ctrl-C.
    """
    shown, reported = " ".join(command), [0, 0]
    with TemporaryFile() as stdin, TemporaryFile() as printed, TemporaryFile() as complained:
        stdin.write(text.encode())
        stdin.seek(0)

        def report(*, ended: bool) -> None:
            for which, file in enumerate((printed, complained)):
                content = _content(file)
                lines = (content if ended else content[: content.rfind("\n") + 1]).splitlines()
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
        raise CommandFailed(f"`{shown}` did not finish within {limit:.0f} s; it printed: {message}")
    if status != 0:
        how = f"exit code {status}" if status > 0 else f"signal {-status}"
        raise CommandFailed(f"`{shown}` failed with {how}: {message}")
    return output


def _content(file: IO[bytes]) -> str:
    """Return a program's output so far, without moving the file's position."""
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
    """Run a command in a new session, so that its children can be killed, and wait until it exits.

    `log` receives standard output and standard error. `tick` is called every `pause` seconds with
    the seconds elapsed; if it raises, the command is killed. `options` are passed to `Popen`.
    Returns the exit status, or None if the command was killed after `limit` seconds. Raises
    `OSError` if the command can't be started.
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
    """Return the last `lines` lines of a log from byte `start` on, each indented by two spaces."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 16384))
        return [f"  {line}" for line in file.read().decode(errors="replace").splitlines()[-lines:]]


def printable(text: str) -> str:
    """Return text without terminal control sequences (ECMA-48, 5.4), encodable as UTF-8."""
    return _CONTROLS.sub("", utf8(text))


def utf8(text: str) -> str:
    """Return text that can be encoded as UTF-8, escaping lone surrogates (as in file names)."""
    return text.encode(errors="backslashreplace").decode()
