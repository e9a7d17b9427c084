"""Follow the logs from a job's containers in a bounded number of threads."""

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
"""The maximum number of running containers whose logs are followed at once; others take turns."""
_READERS = 16  # additional threads, for containers that have ended and those that take turns
_TURN_SECONDS = 15.0  # between two reads of a container, so that the kubelet drops no lines
_PAUSE_SECONDS = 1.0
_POLL_SECONDS = 0.05
_NOT_THERE = frozenset({400, 404})  # the pod or its container no longer exists


@dataclass(frozen=True)
class Container:
    """A container that runs a replica's program; each restart or new pod is another container."""

    replica: int
    pod: str
    id: str
    ended: bool  # its log is complete
    previous: bool  # its pod has since started another


class Taker(Protocol):
    """Receives log lines. Several threads call it, but only one at a time per container."""

    def begin(self, container: Container) -> Cursor:
        """Return the position from which to read a container's log; called once per container."""

    def take(self, container: Container, lines: Sequence[Line]) -> None: ...


@dataclass
class Follower:
    """Reads the logs of one job's containers."""

    api: JobApi
    taker: Taker
    starts: Callable[[Mapping[str, Any]], Sequence[Container]]
    """Returns the containers that a pod's status lists."""
    contact: float = field(default_factory=time.monotonic)
    """Time of the API server's last response, by the monotonic clock."""
    last_error: str = ""  # the latest refusal or connection error, which is being retried
    _broken: Exception | None = None
    _busy: dict[str, bool] = field(default_factory=dict)  # by id: whether the log is being followed
    _cursors: dict[str, Cursor] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _again_at: dict[str, float] = field(default_factory=dict)
    _turns: dict[str, float] = field(default_factory=dict)  # by id: time of the next turn
    _followed: frozenset[str] = frozenset()  # ids
    _closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Stop each thread at the next line in its log; the threads are daemons, and not joined."""
        self._closed.set()

    def failed(self, error: Exception) -> None:
        """Record a request error; any other error is raised by the next call to `follow`."""
        if isinstance(error, REQUEST_ERRORS):
            self.last_error = api_message(error)
        else:
            self._broken = error

    def finish(self, containers: Sequence[Container], limit_seconds: float) -> bool:
        """Read these containers' logs to the end; return False if `limit_seconds` was too short.

        If a container is still running, its log so far is read, unless the log is being followed.
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
        """Start reading as many containers' logs as there are free threads; return their IDs.

        Call it repeatedly. Raises any unexpected error that occurred in a thread.
        """
        if self._broken is not None:
            raise self._broken
        now = time.monotonic()
        busy = list(self._busy.values())
        free = {True: LIVE - busy.count(True), False: _READERS - busy.count(False)}
        started = set()
        running = [each.id for each in containers if live and not each.ended]
        self._followed = frozenset(running[:LIVE]) if live else self._followed
        turns = {id_: self._turns.get(id_, 0.0) for id_ in running[LIVE:]}
        for container in sorted(containers, key=lambda each: turns.get(each.id, 0.0)):
            id_, lasting = container.id, live and not container.ended and container.id not in turns
            waits = max(self._again_at.get(id_, 0.0), turns.get(id_, 0.0)) > now
            if free[lasting] > 0 and not (waits or id_ in self._done or id_ in self._busy):
                free[lasting] -= 1
                self._busy[id_] = lasting
                self._turns[id_] = now + _TURN_SECONDS
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
            # A kubelet restart also ends a followed log.
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
        """Pass on a container's log; return whether its pod has since started another container."""
        log = self.api.log_lines(
            container.pod, since=cursor.since, previous=container.previous, follow=live
        )
        checked = False
        for batch in cursor.fresh(log):
            self.contact = time.monotonic()
            if self._closed.is_set() or (live and container.id not in self._followed):
                break
            # This is the log of the pod's current container, which may be a newer one.
            if not checked and (now := self._is_previous(container)) != container.previous:
                return now is True
            checked = True
            if batch:
                self.taker.take(container, batch)
        return False

    def _is_previous(self, container: Container) -> bool | None:
        """Return whether a container's pod has since started another; None if it is not listed."""
        pod = self.api.get(container.pod)
        if pod is None:
            return container.previous
        return next((each.previous for each in self.starts(pod) if each.id == container.id), None)
