"""What happens to a job, as it happens: watches and logs, gathered into one queue."""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from kubernetes.client.exceptions import ApiException

from jobs.api import JobApi, Object, Unreachable, error_message
from jobs.judge.replica import Replica, is_of, is_replica
from jobs.logs.archive import Run
from jobs.logs.follower import Container, Follower, containers
from jobs.logs.recording import Recorder, Recording
from jobs.topology import Topology

_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Seen:
    """One thing that was seen: all jobs of this name, all its pods, or a line of a log."""

    kind: Literal["jobs", "pods", "line"]
    what: Any


@dataclass
class Feed:
    """Follows one job in threads of its own, from `with` on, and records its replicas' logs.

    A watch that ends or breaks (a restarted API server, `410 Gone`) starts over with a fresh
    listing, so nothing that lasts is missed. Lines are those of replica 0; where replicas of an
    elastic job are lost, of the first that runs.

    Args:
        api: Of the job.
        job: As it was submitted or adopted.
        kept: Where its logs are kept; None to keep none.
        warn: Takes what the user should know.
    """

    api: JobApi
    job: Mapping[str, Any]
    kept: Run | None = None
    warn: Callable[[str], None] = lambda _: None
    last_error: str = ""
    _seen: "queue.SimpleQueue[Seen]" = field(default_factory=queue.SimpleQueue)
    _closed: threading.Event = field(default_factory=threading.Event)
    _contact: float = field(default_factory=time.monotonic)
    _pods: Sequence[Mapping[str, Any]] = ()
    _resources: ExitStack = field(default_factory=ExitStack)
    _broken: Exception | None = None
    _recording: Recording | None = None

    def __enter__(self) -> "Feed":
        if self.kept is not None:
            self._recording = Recording(self.kept, self._topology, self.warn)
            self._resources.enter_context(self._recording)
        self._recorder = Recorder(
            self._recording,
            speak=lambda line: self._seen.put(Seen("line", line)),
        )
        self._follower = Follower(self.api, self._recorder, self._touch, self._trouble)
        self._resources.callback(self._follower.close)
        self._start(lambda: self._repeat("jobs", self.api.watch_job))
        self._start(lambda: self._repeat("pods", self.api.watch_pods))
        return self

    def __exit__(self, *_: object) -> None:
        # A thread ends with its current watch; none of them keeps the process alive.
        self._closed.set()
        self._resources.close()

    @property
    def silent_seconds(self) -> float:
        """How long ago the API server answered last."""
        return time.monotonic() - self._contact

    def next(self, wait_seconds: float) -> list[Seen]:
        """Return what was seen since the last call, having waited when that was nothing yet.

        Each call also goes on with the logs: one that broke off is read on from where it was.

        Raises:
            Exception: whatever a thread did not expect.
        """
        if self._broken is not None:
            raise self._broken
        seen = self._take(wait_seconds)
        listings = [each.what for each in seen if each.kind == "pods"]
        # Also those in between: a short-lived container may be in one alone.
        for pods in listings or [self._pods]:
            self._pods = pods
            self._follow()
        return seen

    def finish(self, limit_seconds: float) -> None:
        """Fetch what is missing of the logs, before any of the pods is deleted."""
        if self._recording is None:
            return
        try:
            containers = self._containers(self.api.pods())
        except (ApiException, Unreachable) as error:
            self._trouble(error)
            containers = self._containers(self._pods)
        if self._follower.finish(containers, limit_seconds):
            self._recording.seal()
        else:
            reason = f": {self.last_error}" if self.last_error else ""
            self.warn(f"not all logs were read within {limit_seconds:g} s{reason}")

    def _take(self, wait_seconds: float) -> list[Seen]:
        try:
            seen = [self._seen.get(timeout=wait_seconds)]
        except queue.Empty:
            return []
        while not self._seen.empty():
            seen.append(self._seen.get())
        return seen

    def _follow(self) -> None:
        containers = self._containers(self._pods)
        if self._topology.elastic:
            running = [each.replica for each in containers if not each.ended]
            self._recorder.speaker = min(running, default=self._recorder.speaker)
        self._follower.follow(containers)

    @cached_property
    def _topology(self) -> Topology:
        return Topology.of(self.job)

    def _containers(self, pods: Iterable[Mapping[str, Any]]) -> list[Container]:
        uid = self.job["metadata"]["uid"]
        mine = (Replica(pod, self._topology) for pod in pods if is_replica(pod) and is_of(pod, uid))
        ordered = sorted(mine, key=lambda replica: replica.number)
        return [each for replica in ordered for each in containers(replica)]

    def _touch(self) -> None:
        self._contact = time.monotonic()

    def _trouble(self, error: Exception) -> None:
        if isinstance(error, ApiException | Unreachable):
            self.last_error = error_message(error)
        else:
            self._broken = error  # raised by `next`

    def _start(self, target: Callable[[], object]) -> None:
        threading.Thread(target=target, daemon=True).start()

    def _repeat(
        self, kind: Literal["jobs", "pods"], watch: Callable[[], Iterable[list[Object]]]
    ) -> None:
        while not self._closed.is_set():
            try:
                for what in watch():
                    self._touch()
                    self._seen.put(Seen(kind, what))
                    if self._closed.is_set():
                        break
            except Exception as error:  # noqa: BLE001 - see `_trouble`
                self._trouble(error)
                self._closed.wait(_PAUSE_SECONDS)
