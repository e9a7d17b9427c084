"""Stream replicas' logs and changes to objects from the API server."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.watch import Watch

from core import kube
from jobs.api.lines import LONGEST, Line

LIMIT = (5, 20)  # seconds: to connect, and between two reads
_WATCH_SECONDS = 30
See = Callable[[Any], None]
Wait = tuple[str, See, See]  # a job's name, and functions that take its objects, and errors
_LOCK = threading.Lock()  # for the state of all watches; never held during a request
_WATCHES: dict[tuple[str, str], "_Watch"] = {}


def log_lines(client: ApiClient, path: str, options: Mapping[str, str]) -> Iterator[list[Line]]:
    """Yield the log at `path` in batches as it arrives; an empty one shows that the API responds.

    Raises:
        ApiException: the API server refused the request.
        urllib3.exceptions.HTTPError: nothing arrived for 30 s, or the connection broke.
    """
    request = kube.Request("GET", path, {**options, "timestamps": "true"})
    answer = kube.send(client, request, limit=(5, 30))
    try:
        yield []
        rest = bytearray()
        for block in answer.stream(decode_content=False):
            rest += block
            *lines, last = rest.split(b"\n") if b"\n" in block else [rest]
            parsed = (Line.parse(each[:LONGEST].decode(errors="replace")) for each in lines)
            # The kubelet's own messages have no timestamp, and are skipped.
            yield [line for line in parsed if line is not None]
            rest = last[:LONGEST]
    finally:
        # The connection can't be reused: unread data may still arrive on it.
        answer.close()


@contextmanager
def watching(client: ApiClient, path: str, label: str, wait: Wait) -> Iterator[None]:
    """While the block runs, pass a job's objects to `wait`'s function now and after each change."""
    key = (client.configuration.host, path)
    try:
        with _LOCK:
            watch = _WATCHES.setdefault(key, _Watch(client, path, label))
            watch.waits = (*watch.waits, wait)
            watch.client = client  # with the newest credentials
            watch.end()
            if len(watch.waits) == 1:
                threading.Thread(target=watch.repeat, daemon=True).start()
        yield
    finally:
        with _LOCK:
            watch.waits = tuple(each for each in watch.waits if each is not wait)
            if not watch.waits:
                del _WATCHES[key]
                watch.end()


@dataclass
class _Watch:
    """One watch that all waits in this process share, and that misses no lasting change.

    It starts over with a new list of objects after 30 s, on an error (such as `410 Gone`), and when
    a wait is added.
    """

    client: ApiClient
    path: str
    label: str
    waits: tuple[Wait, ...] = ()
    _ended: threading.Event = field(default_factory=threading.Event)
    _answer: Any = None

    def end(self) -> None:
        """End the current request, so that the next one includes new waits; requires `_LOCK`."""
        self._ended.set()
        if self._answer is not None:
            with suppress(OSError, RuntimeError, ValueError):  # it has ended on its own
                self._answer.shutdown()

    def repeat(self) -> None:
        while True:
            self._ended.clear()  # in this order, so that no new wait is overlooked
            if not (waits := self.waits):
                return
            try:
                for job, objects in self._changes({job for job, _, _ in waits}):
                    # A new wait for the same name must not see a listing made before it.
                    for _, see, _ in (each for each in waits if each[0] == job):
                        see(objects)
            except Exception as error:  # noqa: BLE001  # the waits decide
                for _, _, failed in () if self._ended.is_set() else waits:
                    failed(error)
                self._ended.wait(1.0)

    def _changes(self, jobs: set[str]) -> Iterator[tuple[str, list[Any]]]:
        """Yield each job's objects, then a job's objects again after each change to them."""
        query = {"labelSelector": f"{self.label} in ({','.join(sorted(jobs))})"}
        listing = kube.ask(self.client, kube.Request("GET", self.path, query), limit=LIMIT)
        objects = {job: dict[str, Any]() for job in jobs}
        for item in listing["items"]:
            objects[item["metadata"]["labels"][self.label]][item["metadata"]["uid"]] = item
        yield from ((job, [*own.values()]) for job, own in objects.items())
        since = {"watch": "true", "resourceVersion": listing["metadata"]["resourceVersion"]}
        query |= {**since, "timeoutSeconds": f"{_WATCH_SECONDS}"}
        answer = kube.send(self.client, kube.Request("GET", self.path, query), limit=(5, 35))
        with _LOCK:
            self._answer = answer
            if self._ended.is_set():
                self.end()
        for change in Watch().stream(lambda **_: answer, timeout_seconds=_WATCH_SECONDS):  # type: ignore[no-untyped-call]
            item = change["raw_object"]
            job, uid = item["metadata"]["labels"][self.label], item["metadata"]["uid"]
            objects[job][uid] = item
            # A deleted object's last state may contain an exit code.
            yield job, [*objects[job].values()]
            if change["type"] == "DELETED":
                del objects[job][uid]
                yield job, [*objects[job].values()]
