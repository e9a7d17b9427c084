"""What a job's ranks print while a user follows its logs."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from queue import PriorityQueue
from typing import Any

from core.manifests import holds
from jobs.api import JobApi
from jobs.logs.follower import LIVE, Container, Follower, containers
from jobs.logs.lines import Cursor, Line
from jobs.spec.names import run_of
from scripts.cli.logs import Target
from scripts.cli.logs.lines import LogLine, Printer

_WINDOW_SECONDS = 1.0
_POLL_SECONDS = 1.0
_TICK_SECONDS = 0.1
_STRAGGLERS_SECONDS = 45.0
"""How long pods may go on after the run's end: `up` stops them within 30 s."""
_LAST_SECONDS = 10.0
"""How long what is missing may take once all have ended."""


@dataclass
class Window:
    """Orders the lines of several logs; each line waits `seconds` for those before it.

    The lines of one log keep their order: its two outputs may have times that differ by a hair.
    """

    seconds: float
    _waiting: "PriorityQueue[tuple[str, int, float, LogLine]]" = field(
        default_factory=PriorityQueue
    )
    _latest: dict[str, str] = field(default_factory=dict)
    _order: Iterator[int] = field(default_factory=count)

    def put(self, entry: LogLine) -> None:
        """Take a line; several threads call it, for one log one at a time."""
        stamp = max(entry.line.stamp, self._latest.get(entry.container, ""))
        self._latest[entry.container] = stamp
        self._waiting.put((stamp, next(self._order), time.monotonic(), entry))

    def take(self, *, everything: bool = False) -> Iterator[LogLine]:
        """Yield the lines that have waited long enough, or all."""
        before = time.monotonic() - self.seconds
        while not self._waiting.empty() and (everything or self._waiting.queue[0][2] <= before):
            yield self._waiting.get()[3]


@dataclass
class Live:
    """Prints what comes until the run has ended; `cursors` has what was printed, by container."""

    target: Target
    api: JobApi
    printer: Printer
    cursors: dict[str, Cursor]
    _noted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._window = Window(_WINDOW_SECONDS if len(self.target.replicas) > 1 else 0)

    def run(self) -> None:
        """Print until the run's pods are done."""
        follower = Follower(self.api, self)
        ended_at: float | None = None
        while True:
            job = self.api.get()
            current = shown_containers(self.target, self.api)
            self._comment(current)
            is_over = has_ended(job) or (job is not None and run_of(job) != self.target.run_id)
            if is_over and ended_at is None:
                ended_at = time.monotonic()
            if ended_at is not None and self._is_done(current, ended_at):
                break
            follower.follow(current)
            self._wait()
        self._finish(follower, [each for each in current if each.ended])
        self._drain(everything=True)

    def begin(self, container: Container) -> Cursor:
        """Go on where the printing of a log ended."""
        return self.cursors.get(container.id, Cursor())

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Take what comes next."""
        run_id = self.target.run_id or ""
        for line in lines:
            self._window.put(LogLine(line, container.replica, run_id, container.id))

    def _is_done(self, current: Sequence[Container], ended_at: float) -> bool:
        running = [each for each in current if not each.ended]
        if not running:
            return True
        if time.monotonic() - ended_at < _STRAGGLERS_SECONDS:
            return False
        names = ", ".join(self.printer.names[each.replica] for each in running)
        self._note_once(f"the run has ended, but still running: {names}")
        return True

    def _comment(self, current: Sequence[Container]) -> None:
        if not current:
            self._note_once(f"no rank of {self.target.name} has started yet")
        running = sum(not each.ended for each in current)
        if running > LIVE:
            self._note_once(
                f"{running} ranks are running: {LIVE} are followed, the others shown as they end"
            )

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.printer.note(text)

    def _finish(self, follower: Follower, ended: Sequence[Container]) -> None:
        deadline = time.monotonic() + _LAST_SECONDS
        follower.finish(ended, _LAST_SECONDS)
        # Of a pod that was deleted, the end may still be on its way.
        while follower.is_reading and time.monotonic() < deadline:
            time.sleep(_TICK_SECONDS)
        follower.close()

    def _wait(self) -> None:
        # Listing a thousand pods takes a while.
        until = time.monotonic() + max(_POLL_SECONDS, len(self.target.replicas) / 100)
        while time.monotonic() < until:
            self._drain(everything=False)
            time.sleep(_TICK_SECONDS)

    def _drain(self, *, everything: bool) -> None:
        for entry in self._window.take(everything=everything):
            self.printer.print(entry)
        self.printer.out.flush()


def shown_containers(target: Target, api: JobApi) -> list[Container]:
    """Return the containers of the replicas that are to be shown, in their order."""
    found = containers(api.pods(), target.topology, target.run_id)
    return [each for each in found if each.replica in target.replicas]


def has_ended(job: Mapping[str, Any] | None) -> bool:
    """Return whether a PyTorchJob is done or gone."""
    return job is None or holds(job, "Succeeded") or holds(job, "Failed")
