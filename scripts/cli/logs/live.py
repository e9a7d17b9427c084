"""What a job's ranks print while somebody looks on."""

import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Unreachable
from jobs.logs.containers import Container
from jobs.logs.follower import LIVE, Follower
from jobs.logs.lines import Cursor, Line
from jobs.spec.names import run_of
from scripts.cli.logs.find import containers, has_ended
from scripts.cli.logs.lines import Printer, Said, Window
from scripts.cli.logs.target import Target

_WINDOW_SECONDS = 1.0
_POLL_SECONDS = 1.0
_TICK_SECONDS = 0.1
_STRAGGLERS_SECONDS = 45.0
"""How long pods may go on after the run's end: whoever waits for it stops them within 30 s."""
_LAST_SECONDS = 10.0
"""How long what is missing may take once all have ended."""


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
    _said: "queue.SimpleQueue[Said]" = field(default_factory=queue.SimpleQueue)
    _broken: list[Exception] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Print until the run's pods are done."""
        window = Window(_WINDOW_SECONDS if len(self.target.replicas) > 1 else 0)
        follower = Follower(self.api, self, trouble=self._trouble)
        ended_at: float | None = None
        while True:
            job = self.api.get()
            there = containers(self.target, self.api.pods())
            self._comment(there)
            is_over = has_ended(job) or (job is not None and run_of(job) != self.target.run_id)
            if is_over and ended_at is None:
                ended_at = time.monotonic()
            if ended_at is not None and self._is_done(there, ended_at):
                break
            follower.follow(there)
            self._wait(window)
        self._finish(follower, [each for each in there if each.ended])
        self._drain(window, everything=True)

    def begin(self, container: Container, known: Cursor | None) -> Cursor:
        """Go on where the printing of a log ended."""
        return self.cursors.get(container.id, Cursor()) if known is None else known

    def take(self, container: Container, lines: Sequence[Line]) -> None:
        """Take what comes next."""
        for line in lines:
            self._said.put(Said(line, container.replica, self.target.run_id or "", container.id))

    def end(self, container: Container) -> None:
        """A log that broke off is gone on with."""

    def _trouble(self, error: Exception) -> None:
        """The API server's answers show by themselves when it has gone for long."""
        if not isinstance(error, ApiException | Unreachable):
            self._broken.append(error)

    def _is_done(self, there: Sequence[Container], ended_at: float) -> bool:
        running = [each for each in there if not each.ended]
        if not running:
            return True
        if time.monotonic() - ended_at < _STRAGGLERS_SECONDS:
            return False
        names = ", ".join(self.target.label(each.replica) for each in running)
        self._tell_once(f"the run has ended, but still there: {names}")
        return True

    def _comment(self, there: Sequence[Container]) -> None:
        if not there:
            self._tell_once(f"no rank of {self.target.name} has started yet")
        running = sum(not each.ended for each in there)
        if running > LIVE:
            self._tell_once(f"{running} run: {LIVE} are followed, the others shown as they end")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.printer.tell(text)

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
        while not self._said.empty():
            window.put(self._said.get())
        for said in window.take(everything=everything):
            self.printer.print(said)
        self.printer.out.flush()
