"""Long commands, several at a time: what each will take is printed first, then the time it took.

Every line names its step and is printed as a whole, so that those of steps that run beside each
other can be told apart. On a terminal each step that runs has a row below them.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.paths import cache_dir

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


class Steps:
    """Runs steps, from any thread, and shows them. Leaving it with an exception ends them all."""

    def __init__(self, console: Console) -> None:
        self.console = console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._rows = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._running: set[subprocess.Popen[bytes]] = set()
        self.ended = False
        self._changing = threading.Lock()

    def __enter__(self) -> Self:
        self._rows.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self._rows.stop()
        if kind is not None:
            with self._changing:
                self.ended = True
                for process in self._running:
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, step: Step) -> None:
        """Runs a step to its end.

        Raises:
            StepFailed: it could not be started, exited non-zero, ran past its limit, or was ended.
        """
        with self.shown(step.title, step.estimate) as started:
            step.log_file.parent.mkdir(parents=True, exist_ok=True)
            with step.log_file.open("w") as log:
                code = self._watch(step, log, started)
            seconds = time.monotonic() - started
            if code is None:
                raise StepFailed(_report(step, f"did not end within {step.limit:.0f} s"))
            if code != 0:
                raise StepFailed(_report(step, f"exited {code} after {seconds:.0f} s"))

    @contextmanager
    def shown(self, title: str, estimate: str) -> Iterator[float]:
        """Shows what happens inside as a step, and yields when it began."""
        self.console.print(f"{title} [dim](about {estimate})[/dim]")
        row = self._rows.add_task(title, total=None)
        started = time.monotonic()
        try:
            yield started
        finally:
            self._rows.remove_task(row)
        passed = _duration(time.monotonic() - started)
        self.console.print(f"  [green]done[/green] in {passed}: {title}")

    def _watch(self, step: Step, log: IO[str], started: float) -> int | None:
        """The exit status, or None when the limit came first."""
        process = self._start(step, log)
        try:
            while True:
                left = started + step.limit - time.monotonic()
                try:
                    return process.wait(min(_HEARTBEAT, max(left, 0)))
                except subprocess.TimeoutExpired:
                    if left <= 0:
                        return None
                if not self.console.is_terminal:
                    passed = _duration(time.monotonic() - started)
                    self.console.print(f"  {passed} so far: {step.title}")
        finally:
            with self._changing:
                self._running.discard(process)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, step: Step, log: IO[str]) -> "subprocess.Popen[bytes]":
        with self._changing:
            if self.ended:
                raise StepFailed(f"{step.title}: not begun, since set-up ends")
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
            self._running.add(process)
            return process


def _report(step: Step, what: str) -> str:
    tail = step.log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    lines = [f"{step.title}: {what}. The end of {step.log_file}:", *(f"  {line}" for line in tail)]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
