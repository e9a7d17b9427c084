"""What a job's ranks print while a user follows its logs."""

import heapq
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Unreachable
from jobs.judge.replica import Replica, is_replica
from jobs.logs.follower import LIVE, Container, Follower
from jobs.logs.follower import containers as containers_of
from jobs.logs.lines import Cursor, Line
from jobs.spec.names import run_of
from scripts.cli.logs.command import Target
from scripts.cli.logs.lines import LogLine, Printer

_ENDS = frozenset({"Succeeded", "Failed"})
_WINDOW_SECONDS = 1.0
_POLL_SECONDS = 1.0
_TICK_SECONDS = 0.1
_STRAGGLERS_SECONDS = 45.0
"""How long pods may go on after the run's end: `up` stops them within 30 s."""
_LAST_SECONDS = 10.0
"""How long what is missing may take once all have ended."""


@dataclass
class Window:
    """Orders the lines of several logs, each of which arrives shortly after it was written.

    The lines of one log keep their order: its two outputs may have times that differ by a hair.

    Args:
        seconds: How long a line waits for those before it.
    """

    seconds: float
    _waiting: list[tuple[str, int, float, LogLine]] = field(default_factory=list)
    _latest: dict[str, str] = field(default_factory=dict)
    _count: int = 0

    def put(self, entry: LogLine) -> None:
        """Take a line."""
        self._count += 1
        stamp = max(entry.line.stamp, self._latest.get(entry.container, ""))
        self._latest[entry.container] = stamp
        heapq.heappush(self._waiting, (stamp, self._count, time.monotonic(), entry))

    def take(self, *, everything: bool = False) -> Iterator[LogLine]:
        """Yield the lines that have waited long enough, or all."""
        before = time.monotonic() - self.seconds
        while self._waiting and (everything or self._waiting[0][2] <= before):
            yield heapq.heappop(self._waiting)[3]


@dataclass
class Live:
    """What comes, until the run has ended.

    Args:
        target: Whose.
        api: Its cluster.
        printer: Where to.
        cursors: How far each container's log was printed, by its id.
    """

    target: Target
    api: JobApi
    printer: Printer
    cursors: dict[str, Cursor]
    _lines: "queue.SimpleQueue[LogLine]" = field(default_factory=queue.SimpleQueue)
    _broken: list[Exception] = field(default_factory=list)
    _noted: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Print until the run's pods are done."""
        window = Window(_WINDOW_SECONDS if len(self.target.replicas) > 1 else 0)
        follower = Follower(self.api, self, trouble=self._trouble)
        ended_at: float | None = None
        while True:
            job = self.api.get()
            current = containers(self.target, self.api.pods())
            self._comment(current)
            is_over = has_ended(job) or (job is not None and run_of(job) != self.target.run_id)
            if is_over and ended_at is None:
                ended_at = time.monotonic()
            if ended_at is not None and self._is_done(current, ended_at):
                break
            follower.follow(current)
            self._wait(window)
        self._finish(follower, [each for each in current if each.ended])
        self._drain(window, everything=True)

    def begin(self, container: Container, known: Cursor | None) -> Cursor:
        """Go on where the printing of a log ended."""
        return self.cursors.get(container.id, Cursor()) if known is None else known

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Take what comes next."""
        for line in lines:
            self._lines.put(
                LogLine(line, container.replica, self.target.run_id or "", container.id)
            )

    def end(self, container: Container) -> None:
        """A log that broke off is gone on with."""

    def _trouble(self, error: Exception) -> None:
        """The API server's answers show by themselves when it has gone for long."""
        if not isinstance(error, ApiException | Unreachable):
            self._broken.append(error)

    def _is_done(self, current: Sequence[Container], ended_at: float) -> bool:
        running = [each for each in current if not each.ended]
        if not running:
            return True
        if time.monotonic() - ended_at < _STRAGGLERS_SECONDS:
            return False
        names = ", ".join(self.target.label(each.replica) for each in running)
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

    def _wait(self, window: Window) -> None:
        # Listing a thousand pods takes a while.
        until = time.monotonic() + max(_POLL_SECONDS, len(self.target.replicas) / 100)
        while time.monotonic() < until:
            self._drain(window, everything=False)
            time.sleep(_TICK_SECONDS)

    def _drain(self, window: Window, *, everything: bool) -> None:
        if self._broken:
            raise self._broken[0]
        while not self._lines.empty():
            window.put(self._lines.get())
        for entry in window.take(everything=everything):
            self.printer.print(entry)
        self.printer.out.flush()


def containers(target: Target, pods: Sequence[Mapping[str, Any]]) -> list[Container]:
    """Return the containers of the replicas that are to be shown, in their order."""
    known = [
        Replica(pod, target.topology)
        for pod in pods
        if is_replica(pod) and run_of(pod) == target.run_id
    ]
    chosen = sorted(
        (each for each in known if each.number in target.replicas),
        key=lambda each: (each.number, str(each.pod["metadata"].get("creationTimestamp"))),
    )
    return [each for replica in chosen for each in containers_of(replica)]


def has_ended(job: Mapping[str, Any] | None) -> bool:
    """Return whether a PyTorchJob is done or gone."""
    if job is None:
        return True
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(each["type"] in _ENDS and each["status"] == "True" for each in conditions)
