"""An API server client for one job: plain dicts in, plain dicts out."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

import tenacity
import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from clusters import cloud_reports
from core import kube
from core.kube import Request
from core.manifests import rendered
from jobs.api.lines import Line
from jobs.api.streams import LIMIT, See, log_lines, watching
from jobs.model.names import CONTAINER, JOB_LABEL
from jobs.model.pytorchjob import API_PATH, JOB_NAME_LABEL

Object = dict[str, Any]

Unreachable = urllib3.exceptions.HTTPError
"""Raised by the client if the API server does not respond."""

_STAND_IN = Path(__file__).with_name("stand_in.yaml")


@dataclass
class _Listing:
    """All objects of a kind, which every wait of this process needs from time to time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: float = -math.inf
    items: list[Object] = field(default_factory=list)
    error: Exception | None = None


_LISTINGS: dict[tuple[str, str], _Listing] = {}  # by host and path


@dataclass(frozen=True)
class JobApi:
    """A client for one PyTorchJob, its pods and their logs.

    Transient errors are retried for `retry_seconds`.

    Raises:
        ApiException: the API server refused the request.
        Unreachable: the API server did not respond for `retry_seconds`.
    """

    client: ApiClient
    namespace: str
    name: str
    retry_seconds: float = 30

    @classmethod
    def connect(cls, kubeconfig: str, namespace: str, name: str) -> Self:
        """Return a client for the job `name`; `kubeconfig` is the file's contents, not its path."""
        return cls(kube.connect(kubeconfig), namespace, name)

    def retrying(self, seconds: float) -> Self:
        return replace(self, retry_seconds=seconds)

    def names(self) -> list[str]:
        """Return the names of all PyTorchJobs in the namespace."""
        jobs = self._unless_gone(Request("GET", self._jobs)) or {"items": []}  # no CRD
        return [str(job["metadata"]["name"]) for job in jobs["items"]]

    def get(self, pod: str | None = None) -> Object | None:
        """Return the job, or that pod; None if it, its CRD or its namespace does not exist."""
        return self._unless_gone(Request("GET", self._path(pod)))

    def age(self, job: Mapping[str, Any]) -> float:
        """Return how many seconds ago the job was created, by the API server's clock."""
        answer = self._ask(Request("GET", self._jobs, {"limit": "1"}), kube.send)
        now = parsedate_to_datetime(answer.headers["Date"])
        created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
        return max(0.0, (now - created).total_seconds())

    def create(self, manifest: Object) -> Object:
        """Submit the job; an `ApiException` with status 409 means that the job already exists."""
        created: Object = self._ask(Request("POST", self._jobs, body=manifest))
        return created

    def admit(self, manifest: Object) -> None:
        """Validate a job with a server-side dry run; raises ApiException if it is refused."""
        request = Request("POST", self._jobs, {"dryRun": "All"}, manifest)
        # A 409 is not a refusal: the name is looked up once validation and admission have passed.
        # https://github.com/kubernetes/apiserver/blob/v0.34.4/pkg/registry/generic/registry/store.go
        kube.ask(self.client, request, limit=kube.ADMISSION, settled=409)

    def patch(self, change: Object, pod: str | None = None) -> None:
        """Merge `change` into the job, or into one pod; do nothing if it does not exist."""
        self._unless_gone(Request("PATCH", self._path(pod), body=change))

    def delete(self) -> None:
        """Start deleting the job and its pods; do nothing if the job does not exist."""
        self._unless_gone(Request("DELETE", self._path(), {"propagationPolicy": "Foreground"}))

    def pods(self) -> list[Object]:
        """Return the pods that the job owns, but not others with the same label."""
        query = {"labelSelector": f"{JOB_NAME_LABEL}={self.name}"}
        return self._owned(self._items(self._pods, query))

    def delete_pod(self, name: str, *, at_once: bool = False) -> None:
        """Start deleting one pod, if it exists; `at_once` forces this, even if its node is lost."""
        query = {"gracePeriodSeconds": "0"} if at_once else {}
        self._unless_gone(Request("DELETE", self._path(name), query))

    def stand_in(self, pod: Mapping[str, Any], host: str) -> None:
        """Make `host`, a finished pod's name in DNS, resolve to `pod` as long as `pod` exists."""
        own, address = pod["metadata"], pod["status"]["podIP"]
        family = "IPv6" if ":" in address else "IPv4"
        names = {"pod": own["name"], "uid": own["uid"], "host": host}
        (listed,) = rendered(_STAND_IN, **names, address=address, family=family)
        path = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        self._ask(Request("POST", path, body=listed))

    def events(self, uids: set[str], seconds: float = 0) -> list[Object]:
        """Return the events for the objects with these UIDs; see `nodes` for `seconds`."""
        events = self._listed(f"{_in(self.namespace)}/events", seconds)
        return [event for event in events if event["involvedObject"].get("uid") in uids]

    def nodes(self, seconds: float = 0) -> list[Object]:
        """Return all nodes; a list that this process fetched within `seconds` is used again."""
        return self._listed("/api/v1/nodes", seconds)

    def workloads(self, uid: str) -> list[Object]:
        """Return Kueue's Workloads for the job with that UID; none if Kueue is not installed."""
        group = self._unless_gone(Request("GET", "/apis/kueue.x-k8s.io"))
        if group is None:
            return []
        version = group["preferredVersion"]["groupVersion"]
        own = {"labelSelector": f"kueue.x-k8s.io/job-uid={uid}"}
        return self._items(f"/apis/{version}/namespaces/{self.namespace}/workloads", own)

    def autoscaler_report(self) -> tuple[str, list[Object]] | None:
        """Return the autoscaler's status and its events, or None if there is no autoscaler.

        https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
        """
        name, path = cloud_reports.STATUS, _in(cloud_reports.NAMESPACE)
        maps = self._items(f"{path}/configmaps", {"fieldSelector": f"metadata.name={name}"})
        if not maps:
            return None
        events = self._items(f"{path}/events", {"fieldSelector": f"involvedObject.name={name}"})
        return str((maps[0].get("data") or {}).get("status", "")), events

    def log_lines(
        self, pod: str, *, since: str | None = None, previous: bool = False, follow: bool = False
    ) -> Iterator[list[Line]]:
        """Yield the log of a replica's container as it arrives, until no more lines arrive.

        `since` is an RFC 3339 timestamp in whole seconds, `previous` selects the container before
        the last restart, and `follow` waits for more lines. Requests are not retried; callers
        resume from a `Cursor` instead.
        """
        options = {
            "container": CONTAINER,
            "previous": json.dumps(previous),
            "follow": json.dumps(follow),
        }
        if since is not None:
            options["sinceTime"] = since
        return log_lines(self.client, f"{self._path(pod)}/log", options)

    def watch_job(self, see: See, failed: See) -> AbstractContextManager[None]:
        """Pass the job to `see` after each change, and errors to `failed`; see `watching`."""
        return watching(self.client, self._jobs, JOB_LABEL, (self.name, see, failed))

    def watch_pods(self, see: See, failed: See) -> AbstractContextManager[None]:
        """Pass the pods that `pods` returns to `see` after each change, and errors to `failed`."""
        wait = (self.name, lambda pods: see(self._owned(pods)), failed)
        return watching(self.client, self._pods, JOB_NAME_LABEL, wait)

    def _owned(self, pods: list[Object]) -> list[Object]:
        owners = ((pod, pod["metadata"].get("ownerReferences") or ()) for pod in pods)
        mine = ("PyTorchJob", self.name)
        return [pod for pod, of in owners if mine in {(each["kind"], each["name"]) for each in of}]

    @property
    def _jobs(self) -> str:
        return API_PATH.format(namespace=self.namespace)

    @property
    def _pods(self) -> str:
        return f"{_in(self.namespace)}/pods"

    def _path(self, pod: str | None = None) -> str:
        return f"{self._jobs}/{self.name}" if pod is None else f"{self._pods}/{pod}"

    def _listed(self, path: str, seconds: float) -> list[Object]:
        listing = _LISTINGS.setdefault((self.client.configuration.host, path), _Listing())
        asked = time.monotonic()
        with listing.lock:
            # While the API server is not responding, the retries of one wait do for all.
            if listing.begun < asked - seconds:
                listing.begun, listing.items, listing.error = time.monotonic(), [], None
                try:
                    listing.items = self._items(path)
                except kube.REQUEST_ERRORS as error:
                    listing.error = error
            if listing.error is not None:
                raise listing.error
            return listing.items

    def _items(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
        items: list[Object] = self._ask(Request("GET", path, query or {}))["items"]
        return items

    def _unless_gone(self, request: Request) -> Object | None:
        """Return the response to a request for one object, or None if the object does not exist."""
        answer: Object | None = self._ask(request, partial(kube.ask, settled=404))
        return answer

    def _ask(self, request: Request, send: Callable[..., Any] = kube.ask) -> Any:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._is_transient),
            stop=tenacity.stop_after_delay(self.retry_seconds),
            wait=tenacity.wait_exponential_jitter(multiplier=0.2, max=5),
            reraise=True,
        )
        return retrying(send, self.client, request, limit=LIMIT)

    def _is_transient(self, error: BaseException) -> bool:
        if not isinstance(error, ApiException):
            return isinstance(error, Unreachable) and not isinstance(error, kube.AnotherServer)
        if error.status != 403:
            return kube.is_busy(error)
        # A newly started API server refuses everything until it has loaded its roles.
        try:
            kube.send(self.client, Request("GET", "/readyz"), limit=LIMIT).read()
        except (ApiException, Unreachable) as answer:
            return getattr(answer, "status", 0) != 404
        return False


def _in(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"
