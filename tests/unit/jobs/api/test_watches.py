"""All waits of a process share one watch, and each one sees its own job alone."""

import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from jobs.api import streams
from jobs.api.client import JobApi
from tests.doubles.serving import in_background
from tests.unit.jobs_objects import runs

LABEL = "training.kubeflow.org/job-name"
_END = object()


@dataclass
class Cluster:
    """Pods of jobs, and an API server that lists and watches them."""

    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    listings: int = 0
    open: list[tuple[str, "queue.SimpleQueue[Any]"]] = field(default_factory=list)
    """Each open watch's selector and changes."""
    answers: threading.Event = field(default_factory=threading.Event)
    status: int = 200
    lock: threading.Lock = field(default_factory=threading.Lock)

    def change(self, job: str, rank: int, type_: str = "MODIFIED") -> None:
        changed = of_job(job, rank)
        with self.lock:
            self.pods[changed["metadata"]["uid"]] = changed
            for _, each in self.open:
                each.put({"type": type_, "object": changed})

    def cut(self) -> None:
        """Break each watch in the middle of a line."""
        with self.lock:
            for _, each in self.open:
                each.put(_END)

    @contextmanager
    def served(self) -> Iterator[client.ApiClient]:
        cluster = self
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)
                [selector] = query["labelSelector"]
                chosen = selector.removeprefix(f"{LABEL} in (").removesuffix(")").split(",")
                if "watch" in query:
                    self.watch(selector, chosen)
                    return
                with cluster.lock:
                    cluster.listings += 1
                    listed = [each for each in cluster.pods.values() if label(each) in chosen]
                cluster.answers.wait(5)
                text = json.dumps({"items": listed, "metadata": {"resourceVersion": "1"}}).encode()
                self.send_response(cluster.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def watch(self, selector: str, chosen: list[str]) -> None:
                self.close_connection = True
                changes: queue.SimpleQueue[Any] = queue.SimpleQueue()
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with cluster.lock:
                    cluster.open.append((selector, changes))
                # A client that goes away is noticed at once.
                gone = threading.Thread(target=lambda: changes.put(self.connection.recv(1) or _END))
                gone.start()
                while (change := changes.get()) is not _END:
                    if label(change["object"]) in chosen:
                        line = json.dumps(change).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                with cluster.lock:
                    cluster.open.remove((selector, changes))
                self.connection.shutdown(socket.SHUT_RDWR)
                gone.join()

            def log_message(self, *_arguments: Any) -> None:
                """Print nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        with in_background(server):
            loaded = client.Configuration()
            loaded.host, loaded.retries = f"http://127.0.0.1:{server.server_address[1]}", False
            yield client.ApiClient(loaded)
            until(lambda: not streams._WATCHES)


def of_job(job: str, rank: int) -> dict[str, Any]:
    there = runs(rank)
    metadata = there["metadata"]
    metadata["name"] = metadata["name"].replace("mine", job)
    metadata["uid"] = f"{job}-{rank}"
    metadata["labels"][LABEL] = job
    metadata["ownerReferences"] = [{"kind": "PyTorchJob", "name": job, "uid": job}]
    return there


def label(there: dict[str, Any]) -> str:
    return str(there["metadata"]["labels"][LABEL])


@dataclass
class Seen:
    """What one wait was passed."""

    lists: list[list[str]] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def see(self, pods: list[dict[str, Any]]) -> None:
        self.lists.append(sorted(each["metadata"]["name"] for each in pods))


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(name="cluster")
def _cluster() -> Cluster:
    return Cluster()


@contextmanager
def wait(api: client.ApiClient, job: str) -> Iterator[Seen]:
    seen = Seen()
    with JobApi(api, "jobs", job).watch_pods(seen.see, seen.errors.append):
        yield seen


def test_a_pod_that_is_deleted_is_seen_once_more_and_one_of_another_owner_never(
    cluster: Cluster,
) -> None:
    cluster.change("a", 0)
    cluster.change("a", 1)
    [_, foreign] = cluster.pods.values()
    foreign["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "a", "uid": "a"}]
    with cluster.served() as api, wait(api, "a") as seen:
        until(lambda: seen.lists and cluster.open)
        cluster.change("a", 0, "DELETED")
        until(lambda: len(seen.lists) == 3)
        assert seen.lists == [["a-master-0"], ["a-master-0"], []]


def test_waits_share_a_watch_that_misses_no_change_when_it_breaks(cluster: Cluster) -> None:
    cluster.change("stranger", 0)
    with cluster.served() as api, wait(api, "a") as first, wait(api, "b") as second:

        def is_shared() -> bool:
            return [selector for selector, _ in cluster.open] == [f"{LABEL} in (a,b)"]

        until(lambda: second.lists and is_shared())
        cluster.status = 503
        cluster.cut()
        until(lambda: len(first.errors) > 1 and len(second.errors) > 1)
        cluster.change("a", 0)
        cluster.change("b", 0)
        cluster.status = 200
        until(lambda: first.lists[-1] and second.lists[-1] and is_shared())
        cluster.change("a", 1)
        until(lambda: first.lists[-1] == ["a-master-0", "a-worker-0"])
        assert second.lists[-1] == ["b-master-0"], "each sees its own"


def test_a_wait_does_not_see_a_listing_made_before_it(cluster: Cluster) -> None:
    """The former job of that name would look like one that was deleted."""
    with cluster.served() as api, wait(api, "a") as first:
        until(lambda: first.lists and cluster.open)
        cluster.answers.clear()
        cluster.cut()
        until(lambda: cluster.listings == 2)
        cluster.change("a", 0)
        with wait(api, "a") as second:
            cluster.answers.set()
            until(lambda: second.lists)
            assert second.lists[0] == ["a-master-0"]
        assert [] in first.lists[1:]


def test_many_that_come_and_go_at_once_are_all_served_and_leave_no_thread(
    cluster: Cluster,
) -> None:
    cluster.change("a", 0)
    before = {*threading.enumerate()}

    def come_and_go(number: int) -> None:
        for job in ("a", f"b{number}") * 3:
            with wait(api, job) as one, wait(api, job) as other:
                until(lambda: one.lists and other.lists)
                pods = [["a-master-0"] if job == "a" else []]
                assert one.lists[:1] == other.lists[:1] == pods
                assert one.errors == other.errors == []

    with cluster.served() as api, ThreadPoolExecutor(10) as many:
        assert len([*many.map(come_and_go, range(10))]) == 10
    until(lambda: {*threading.enumerate()} <= before)
