"""Run long commands, possibly in parallel, and print an estimate and the duration of each."""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from core.paths import cache_dir
from core.process import run_logged, tail
from jobs.observe.progress import duration

_HEARTBEAT = 60.0  # seconds between progress lines if there is no terminal
_PAUSE = 0.2


class StepFailed(Exception):
    """A command failed; the message contains the end of its output and the path of the full log."""


class Steps:
    """Runs steps from any thread and displays them; an exception in the `with` block stops them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.ended = threading.Event()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._rows = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )

    def __enter__(self) -> Self:
        self._rows.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._rows.stop()
        if kind is not None:
            self.ended.set()

    def run(  # noqa: PLR0913  # a process's parameters, and its display
        self,
        title: str,
        command: Sequence[str | Path],
        *,
        log: str,
        estimate: str,
        limit: float,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command for at most `limit` seconds, writing its output to the file `log`.log.

        Prints `title` and `estimate`, the time and disk space that the command takes. Raises
        `StepFailed` if the command can't start, fails, exceeds its limit or is stopped. With an
        infinite limit, a command that has started is not stopped.
        """
        file = cache_dir() / "logs" / f"{log}.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        options: dict[str, Any] = {"cwd": cwd, "env": {**os.environ, **(variables or {})}}
        shown = 0.0

        def tick(seconds: float) -> None:
            nonlocal shown
            if self.ended.is_set() and (seconds == 0 or limit < float("inf")):
                raise StepFailed(f"{title}: stopped, because setup was stopped")
            if seconds - shown >= _HEARTBEAT and not self.console.is_terminal:
                shown = seconds
                self.console.print(f"  {duration(seconds)} so far: {title}")

        with self.shown(title, estimate) as started, file.open("wb") as opened:
            try:
                tick(0)
                code = run_logged(command, opened, limit=limit, tick=tick, pause=_PAUSE, **options)
            except OSError as error:
                raise StepFailed(f"{title}: {error}") from error
            if code != 0:
                after = f"exited with {code} after {time.monotonic() - started:.0f} s"
                what = f"did not finish within {limit:.0f} s" if code is None else after
                end = tail(file, lines=15)
                raise StepFailed("\n".join([f"{title}: {what}. The end of {file}:", *end]))

    @contextmanager
    def shown(self, title: str, estimate: str) -> Iterator[float]:
        """Display the `with` block as a step, and yield its start time."""
        self.console.print(f"{title} [dim](about {estimate})[/dim]")
        row = self._rows.add_task(title, total=None)
        started = time.monotonic()
        try:
            yield started
        finally:
            self._rows.remove_task(row)
        passed = duration(time.monotonic() - started)
        self.console.print(f"  [green]done[/green] in {passed}: {title}")
