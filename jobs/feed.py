"""What happens to a job, as it happens: watches and a log, gathered into one queue."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Object, Unreachable, said
from jobs.spec import CONTAINER

_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Seen:
    """One thing that was seen: all jobs of this name, all its pods, or a line of a log."""

    kind: Literal["jobs", "pods", "line"]
    what: Any


@dataclass
class Feed:
    """Follows one job in threads of its own, from `with` on.

    A watch that ends or breaks (a restarted API server, `410 Gone`) starts over with a fresh
    listing, so nothing that lasts is missed.
    """

    api: JobApi
    last_error: str = ""
    _seen: "queue.SimpleQueue[Seen]" = field(default_factory=queue.SimpleQueue)
    _closed: threading.Event = field(default_factory=threading.Event)
    _contact: float = field(default_factory=time.monotonic)
    _followed: set[str] = field(default_factory=set)
    _broken: Exception | None = None

    def __enter__(self) -> "Feed":
        self._start(lambda: self._repeat("jobs", self.api.watch_job))
        self._start(lambda: self._repeat("pods", self.api.watch_pods))
        return self

    def __exit__(self, *_: object) -> None:
        # A thread ends with its current watch; none of them keeps the process alive.
        self._closed.set()

    @property
    def silent_seconds(self) -> float:
        """How long ago the API server answered last."""
        return time.monotonic() - self._contact

    def next(self, wait_seconds: float) -> list[Seen]:
        """Return what was seen since the last call; wait when that is nothing yet.

        Raises:
            Exception: whatever a thread did not expect.
        """
        if self._broken is not None:
            raise self._broken
        try:
            seen = [self._seen.get(timeout=wait_seconds)]
        except queue.Empty:
            return []
        while not self._seen.empty():
            seen.append(self._seen.get())
        return seen

    def follow_log(self, pod: str, container_id: str) -> None:
        """Follow the log of a pod's container too, once for each start of it."""
        if container_id not in self._followed:
            self._followed.add(container_id)
            self._start(lambda: self._follow_log(pod, container_id))

    def _follow_log(self, pod: str, container_id: str) -> None:
        if not self._once("line", lambda: self.api.log_lines(pod, CONTAINER)):
            # Broken off: it is read again from its beginning when it is asked for again.
            self._closed.wait(_PAUSE_SECONDS)
            self._followed.discard(container_id)

    def _start(self, target: Callable[[], object]) -> None:
        threading.Thread(target=target, daemon=True).start()

    def _repeat(
        self, kind: Literal["jobs", "pods"], watch: Callable[[], Iterable[list[Object]]]
    ) -> None:
        while not self._closed.is_set():
            if not self._once(kind, watch):
                self._closed.wait(_PAUSE_SECONDS)

    def _once(
        self, kind: Literal["jobs", "pods", "line"], source: Callable[[], Iterable[Any]]
    ) -> bool:
        """Pass on what `source` yields; return whether it ended without an error."""
        try:
            for what in source():
                self._contact = time.monotonic()
                self._seen.put(Seen(kind, what))
                if self._closed.is_set():
                    break
        except (ApiException, Unreachable) as error:
            self.last_error = said(error)
            return False
        except Exception as error:  # noqa: BLE001 - raised by `next`, to whoever waits
            self._broken = error
            return False
        return True
