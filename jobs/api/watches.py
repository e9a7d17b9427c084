"""Watch the objects of jobs over one connection for all waits of this process.

A watch that ends or breaks (a restarted API server, `410 Gone`) starts over with a new listing, so
no lasting change is missed.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import urllib3
from kubernetes.client import ApiClient
from kubernetes.watch import Watch

from core import kube
from jobs.api.streams import LIMIT

See = Callable[[list[dict[str, Any]]], None]
Failed = Callable[[Exception], None]

_WATCH_SECONDS = 30
_PAUSE_SECONDS = 1.0
_LOCK = threading.Lock()  # for all state shared by threads; never held during a request
_SHARED: "dict[Kind, _Shared]" = {}


@dataclass(frozen=True)
class Kind:
    """The objects at a path, in one namespace, that jobs have."""

    client: ApiClient
    path: str
    label: str  # its value is a job's name
    job_of: Callable[[dict[str, Any]], str | None]  # the name of the job that has an object


@contextmanager
def watched(kind: Kind, job: str, see: See, failed: Failed) -> Iterator[None]:
    """Pass a job's objects to `see` now and after each change, while the `with` block runs.

    A deleted object's last state, which may contain an exit code, is passed once. `failed` receives
    each error of the watch, which is then retried. Both are called by the watch's thread.
    """
    own = (job, see, failed)
    with _LOCK:
        if (shared := _SHARED.get(kind)) is None:
            shared = _Shared(kind)
            threading.Thread(target=shared.run, daemon=True).start()
            _SHARED[kind] = shared
        shared.waits.append(own)
        shared.start_over()
    try:
        yield
    finally:
        with _LOCK:
            shared.waits.remove(own)
            if not shared.waits:
                shared.start_over()


@dataclass
class _Shared:
    """One watch, which covers only the jobs that are waited for. It starts over for a new one."""

    kind: Kind
    waits: list[tuple[str, See, Failed]] = field(default_factory=list)
    _outdated: threading.Event = field(default_factory=threading.Event)
    _answer: urllib3.BaseHTTPResponse | None = None

    def start_over(self) -> None:
        """End the current watch, so that the next one sees who waits; call it with the lock."""
        self._outdated.set()
        if self._answer is not None:
            with suppress(OSError, RuntimeError, ValueError):  # it has ended already
                self._answer.shutdown()

    def run(self) -> None:
        """Watch until nobody waits."""
        while waits := self._begin():
            try:
                for job, objects in self._changes({job for job, _, _ in waits}):
                    # A wait that came later must not see a listing made before.
                    for name, see, _ in waits:
                        if name == job:
                            see(objects)
            except Exception as error:  # noqa: BLE001  # the waits decide about it
                if not self._outdated.is_set():
                    for _, _, failed in waits:
                        failed(error)
                    self._outdated.wait(_PAUSE_SECONDS)

    def _begin(self) -> Sequence[tuple[str, See, Failed]]:
        with _LOCK:
            self._outdated.clear()
            if not self.waits:
                del _SHARED[self.kind]
            return [*self.waits]

    def _changes(self, jobs: set[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield each job's objects, and those of one job after each change, for half a minute."""
        kind = self.kind
        query = {"labelSelector": f"{kind.label} in ({','.join(sorted(jobs))})"}
        listing = kube.ask(kind.client, kube.Request("GET", kind.path, query), limit=LIMIT)
        objects: dict[str | None, dict[str, dict[str, Any]]] = {job: {} for job in jobs}
        for item in listing["items"]:
            # Other objects may carry the label, too.
            objects.get(kind.job_of(item), {})[item["metadata"]["uid"]] = item
        for job in jobs:
            yield job, [*objects[job].values()]
        since = {
            "watch": "true",
            "resourceVersion": listing["metadata"]["resourceVersion"],
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        request = kube.Request("GET", kind.path, {**query, **since})
        stream = Watch().stream(  # type: ignore[no-untyped-call]
            lambda **_: self._opened(request), timeout_seconds=_WATCH_SECONDS
        )
        for change in stream:
            item = change["raw_object"]
            if (job_of := kind.job_of(item)) is None or job_of not in jobs:
                continue
            own, uid = objects[job_of], item["metadata"]["uid"]
            own[uid] = item
            yield job_of, [*own.values()]
            if change["type"] == "DELETED":
                del own[uid]
                yield job_of, [*own.values()]

    def _opened(self, request: kube.Request) -> urllib3.BaseHTTPResponse:
        answer = kube.send(self.kind.client, request, limit=(5, 35))
        with _LOCK:
            self._answer = answer
            if self._outdated.is_set():
                self.start_over()
        return answer
