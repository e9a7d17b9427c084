"""A job's containers, and their logs, read as they are written, in a bounded number of threads."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kubernetes.client.exceptions import ApiException

from core.kube import REQUEST_ERRORS, api_message
from jobs.api.client import JobApi
from jobs.api.lines import Cursor, Line

LIVE = 64
"""So many containers are followed while they run; those beyond are read when they have ended."""
_READERS = 16  # threads besides, for containers that have ended
_PAUSE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_NOT_THERE = frozenset({400, 404})  # the pod has gone, or Kubernetes has removed its container


@dataclass(frozen=True)
class Container:
    """One start of a replica's program: a restart is another one, and so is a new pod's."""

    replica: int
    pod: str
    id: str
    ended: bool  # so that its log is complete
    previous: bool  # another one has followed it in its pod


class Taker(Protocol):
    """Takes the lines; several threads call it, for one container one at a time."""

    def begin(self, container: Container) -> Cursor:
        """Return from where on to read a container's log; called once for each."""

    def take(self, container: Container, lines: Sequence[Line]) -> None: ...


@dataclass
class Follower:
    """The logs of one job's containers."""

    api: JobApi
    taker: Taker
    starts: Callable[[Mapping[str, Any]], Sequence[Container]]
    """Returns the starts of a replica's program that a pod shows."""
    contact: float = field(default_factory=time.monotonic)
    """When the API server answered last, by the monotonic clock."""
    last_error: str = ""  # what it refused last, or why it did not answer; that is tried again
    _broken: Exception | None = None
    _busy: dict[str, bool] = field(default_factory=dict)  # what is read, and whether it is followed
    _cursors: dict[str, Cursor] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _again_at: dict[str, float] = field(default_factory=dict)
    _closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Stop with the next line of each log; no thread keeps the process alive."""
        self._closed.set()

    def failed(self, error: Exception) -> None:
        """Remember what went wrong; what was not expected is raised where reading goes on."""
        if isinstance(error, REQUEST_ERRORS):
            self.last_error = api_message(error)
        else:
            self._broken = error

    def finish(self, containers: Sequence[Container], limit_seconds: float) -> bool:
        """Read the logs of these containers to their ends; return whether the time was enough.

        Of a container that runs on, that is what it has printed so far, unless it is followed.
        """
        deadline = time.monotonic() + limit_seconds
        read: set[str] = set()
        while left := [each for each in containers if not self._has_all(each, read)]:
            if time.monotonic() > deadline:
                return False
            read |= self.follow(left, live=False)
            time.sleep(_POLL_SECONDS)
        return True

    def _has_all(self, container: Container, read: set[str]) -> bool:
        is_followed = self._busy.get(container.id)
        if container.ended:
            return container.id in self._done
        return bool(is_followed) or (container.id in read and is_followed is None)

    def follow(self, containers: Sequence[Container], *, live: bool = True) -> set[str]:
        """Go on with as many containers as threads are free; return those that were started.

        To be called again and again: what a thread did not expect is raised here.
        """
        if self._broken is not None:
            raise self._broken
        now = time.monotonic()
        busy = list(self._busy.values())
        free = {True: LIVE - busy.count(True), False: _READERS - busy.count(False)}
        started = set()
        for container in containers:
            id_, lasting = container.id, live and not container.ended
            waits = id_ in self._done or id_ in self._busy or self._again_at.get(id_, 0) > now
            if free[lasting] > 0 and not waits:
                free[lasting] -= 1
                self._busy[id_] = lasting
                started.add(id_)
                threading.Thread(target=self._read, args=(container,), daemon=True).start()
        return started

    def _read(self, container: Container) -> None:
        id_ = container.id
        try:
            if (cursor := self._cursors.get(id_)) is None:
                cursor = self._cursors[id_] = self.taker.begin(container)
            if container.previous or self._pass_on(container, cursor, live=self._busy[id_]):
                self._pass_on(replace(container, previous=True), cursor, live=False)
            # A log that is followed ends also when its node's kubelet is started again.
            if container.ended and not self._closed.is_set():
                self._done.add(id_)
        except Exception as error:  # noqa: BLE001 - see `failed`
            if container.ended and isinstance(error, ApiException) and error.status in _NOT_THERE:
                self._done.add(id_)
            self._again_at[id_] = time.monotonic() + _PAUSE_SECONDS
            self.failed(error)
        finally:
            self._busy.pop(id_, None)

    def _pass_on(self, container: Container, cursor: Cursor, *, live: bool) -> bool:
        """Pass a log on; return whether the container turned out to be its pod's previous one."""
        log = self.api.log_lines(
            container.pod, since=cursor.since, previous=container.previous, follow=live
        )
        checked = False
        for batch in cursor.fresh(log):
            self.contact = time.monotonic()
            # The log is that of the container that is in its place now, whatever was requested.
            if not checked and (now := self._is_previous(container)) != container.previous:
                return now is True
            checked = True
            if batch:
                self.taker.take(container, batch)
            if self._closed.is_set():
                break
        return False

    def _is_previous(self, container: Container) -> bool | None:
        """Return whether another start has followed a container by now; None where it has gone."""
        pod = self.api.get(container.pod)
        if pod is None:
            return container.previous
        return next((each.previous for each in self.starts(pod) if each.id == container.id), None)
