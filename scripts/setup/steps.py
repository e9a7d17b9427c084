"""Long commands: what they will take is said first, then the time that has passed is shown."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from infra.paths import cache_dir

_HEARTBEAT = 60.0  # seconds between two signs of life where there is no terminal to redraw
_LOG_LINES = 15


class StepFailed(Exception):
    """A command failed. The text has the end of its output and names the whole log."""


@dataclass(frozen=True)
class Step:
    """A command to run.

    Args:
        title: What it does, for the person.
        command: Program and arguments.
        log: The log file's name in the cache's `logs/`.
        estimate: Time and disk that it takes, in words.
        limit: Seconds after which it is ended.
        directory: Where it runs.
        environment: The whole of it; None for our own.
    """

    title: str
    command: Sequence[str | Path]
    log: str
    estimate: str
    limit: float
    directory: Path | None = None
    environment: Mapping[str, str] | None = None

    @property
    def log_file(self) -> Path:
        return cache_dir() / "logs" / f"{self.log}.log"


def run(step: Step, console: Console) -> None:
    """Runs a step to its end.

    Raises:
        StepFailed: it could not be started, exited non-zero, or ran past its limit.
    """
    console.print(f"{step.title} [dim](about {step.estimate})[/dim]")
    step.log_file.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with step.log_file.open("w") as log:
        code = _watch(step, log, console, started)
    seconds = time.monotonic() - started
    if code is None:
        raise StepFailed(_report(step, f"did not end within {step.limit:.0f} s"))
    if code != 0:
        raise StepFailed(_report(step, f"exited {code} after {seconds:.0f} s"))
    console.print(f"  [green]done[/green] in {_duration(seconds)}")


def _watch(step: Step, log: IO[str], console: Console, started: float) -> int | None:
    """The exit status, or None when the limit came first."""
    try:
        process = subprocess.Popen(
            step.command,
            cwd=step.directory,
            env=step.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be ended with it
        )
    except OSError as error:
        raise StepFailed(f"{step.title}: {error}") from error
    try:
        with _elapsed(step.title, console):
            while True:
                left = started + step.limit - time.monotonic()
                try:
                    return process.wait(min(_HEARTBEAT, max(left, 0)))
                except subprocess.TimeoutExpired:
                    if left <= 0:
                        return None
                if not console.is_terminal:
                    console.print(f"  {_duration(time.monotonic() - started)} so far")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _elapsed(title: str, console: Console) -> Iterator[None]:
    """A row that counts the seconds, on a terminal; elsewhere nothing."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as row:
        row.add_task(title, total=None)
        yield


def _report(step: Step, what: str) -> str:
    tail = step.log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    lines = [f"{step.title}: {what}. The end of {step.log_file}:", *(f"  {line}" for line in tail)]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
