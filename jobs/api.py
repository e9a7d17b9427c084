"""The API server as a run talks to it: plain dicts in, plain dicts out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import tenacity
import urllib3
from kubernetes.client import ApiClient, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from kubernetes.watch import Watch

from infra import autoscaler, kube
from jobs.logs.lines import Line
from jobs.logs.stream import LogPart, log_lines

Object = dict[str, Any]
Answer = TypeVar("Answer")

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "pytorchjobs"
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
"""The operator puts it on a job's pods and services."""

Unreachable = urllib3.exceptions.HTTPError
"""What the client raises when no answer came."""

_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 20
_BRIEF_SECONDS = 5
"""For a question that need not be answered."""
_RETRY_SECONDS = 30
_WATCH_SECONDS = 30
_MERGE = "application/merge-patch+json"
_SERVER_BUSY = frozenset({429, 500, 502, 503, 504})


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may well succeed in a moment."""
    if isinstance(error, ApiException):
        return error.status in _SERVER_BUSY
    return isinstance(error, Unreachable)


def said(error: ApiException | Unreachable) -> str:
    """Return the API server's own words, or why there are none."""
    return kube.said(error) if isinstance(error, ApiException) else str(error)


@dataclass(frozen=True)
class JobApi:
    """One PyTorchJob and what belongs to it.

    Args:
        client: Connected to the cluster.
        namespace: The job's.
        name: The job's.
        patience: For how many seconds transient errors are tried again.

    Raises:
        ApiException: the API server's refusal.
        Unreachable: no answer for that long.
    """

    client: ApiClient
    namespace: str
    name: str
    patience: float = _RETRY_SECONDS

    @classmethod
    def connect(cls, kubeconfig: str, namespace: str, name: str) -> "JobApi":
        """Return the job `name` on the cluster of `kubeconfig` (its content)."""
        return cls(kube.connect(kubeconfig), namespace, name)

    def patient(self, seconds: float) -> "JobApi":
        """Return the same with another patience."""
        return replace(self, patience=seconds)

    def names(self) -> list[str]:
        """Return the names of all PyTorchJobs of the namespace."""
        jobs = self._items(self._jobs.list_namespaced_custom_object, *self._kind)
        return [str(job["metadata"]["name"]) for job in jobs]

    def get(self) -> Object | None:
        """Return the job, None when there is none: no CRD and no namespace are none, too."""
        return self._unless_gone(
            lambda: self._jobs.get_namespaced_custom_object(*self._named, **_LIMIT)
        )

    def create(self, manifest: Object) -> Object:
        """Submit the job; the API server's 409 tells that there is one of that name."""
        return self._call(
            lambda: self._jobs.create_namespaced_custom_object(*self._kind, manifest, **_LIMIT)
        )

    def admit(self, manifest: Object) -> None:
        """Have the API server and the webhook judge a job, and make none; ApiException refuses it.

        A job of that name is no refusal: who judges has let it pass before its name is looked up.
        https://github.com/kubernetes/apiserver/blob/v0.34.4/pkg/registry/generic/registry/store.go
        """
        try:
            self._jobs.create_namespaced_custom_object(
                *self._kind, manifest, dry_run="All", _request_timeout=_BRIEF_SECONDS
            )
        except ApiException as error:
            if error.status != 409:
                raise

    def patch_pod(self, name: str, change: Object) -> None:
        """Merge `change` into one pod; nothing happens when there is none."""
        self._unless_gone(
            lambda: self._core.patch_namespaced_pod(
                name, self.namespace, change, _content_type=_MERGE, **_LIMIT
            )
        )

    def patch(self, change: Object) -> None:
        """Merge `change` into the job; nothing happens when there is none."""
        self._unless_gone(
            lambda: self._jobs.patch_namespaced_custom_object(*self._named, change, **_LIMIT)
        )

    def delete(self) -> None:
        """Ask for the job and then its pods to be deleted; nothing happens when there is none."""
        self._unless_gone(
            lambda: self._jobs.delete_namespaced_custom_object(
                *self._named, propagation_policy="Foreground", **_LIMIT
            )
        )

    def pods(self) -> list[Object]:
        """Return the job's pods."""
        pods = self._core.list_namespaced_pod
        return self._items(pods, self.namespace, label_selector=self._label)

    def pod(self, name: str) -> Object | None:
        """Return one pod, None when there is none."""
        return self._unless_gone(
            lambda: self._plain(self._core.read_namespaced_pod(name, self.namespace, **_LIMIT))
        )

    def delete_pod(self, name: str) -> None:
        """Ask for one pod to be deleted; nothing happens when there is none."""
        self._unless_gone(lambda: self._core.delete_namespaced_pod(name, self.namespace, **_LIMIT))

    def events(self, uids: set[str]) -> list[Object]:
        """Return the events about the objects with these uids."""
        events = self._items(self._core.list_namespaced_event, self.namespace)
        return [event for event in events if event["involvedObject"].get("uid") in uids]

    def nodes(self) -> list[Object]:
        """Return the cluster's nodes."""
        return self._items(self._core.list_node)

    def all_pods(self) -> list[Object]:
        """Return the cluster's pods that have not ended, everybody's."""
        ended = "status.phase!=Succeeded,status.phase!=Failed"
        return self._items(self._core.list_pod_for_all_namespaces, field_selector=ended)

    def quotas(self) -> list[Object]:
        """Return the ResourceQuotas of the job's namespace."""
        return self._items(self._core.list_namespaced_resource_quota, self.namespace)

    def autoscaler_status(self) -> str | None:
        """Return what an autoscaler says of itself; None when none adds nodes to the cluster."""
        # https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md,
        # "How can I check what is going on in CA?"
        named = f"metadata.name={autoscaler.STATUS}"
        maps = self._core.list_namespaced_config_map
        found = self._items(maps, autoscaler.NAMESPACE, field_selector=named)
        return str((found[0].get("data") or {}).get("status", "")) if found else None

    def autoscaler_events(self) -> list[Object]:
        """Return the events in which an autoscaler tells what it could not do."""
        about = f"involvedObject.name={autoscaler.STATUS}"
        events = self._core.list_namespaced_event
        return self._items(events, autoscaler.NAMESPACE, field_selector=about)

    def log(self, pod: str, container: str, *, lines: int, previous: bool) -> str:
        """Return the last `lines` of a container's log, or of the one before its restart."""
        answer: bytes = self._call(
            lambda: (
                self._core.read_namespaced_pod_log(
                    pod,
                    self.namespace,
                    container=container,
                    tail_lines=lines,
                    previous=previous,
                    _preload_content=False,
                    **_LIMIT,
                ).data
            )
        )
        return answer.decode(errors="replace")

    def log_lines(self, pod: str, part: LogPart) -> Iterator[list[Line]]:
        """Yield the log of a replica's container as it comes, until it ends or falls silent.

        Not tried again: the caller knows what it has seen.
        """
        return log_lines(self.client, self.namespace, pod, part)

    def watch_job(self) -> Iterator[list[Object]]:
        """See `_watch`."""
        return self._watch(
            lambda **options: self._jobs.list_namespaced_custom_object(
                *self._kind, field_selector=f"metadata.name={self.name}", **options
            )
        )

    def watch_pods(self) -> Iterator[list[Object]]:
        """See `_watch`."""
        return self._watch(
            lambda **options: self._core.list_namespaced_pod(
                self.namespace, label_selector=self._label, **options
            )
        )

    def _watch(self, list_: Callable[..., Any]) -> Iterator[list[Object]]:
        """Yield all objects now, then again at each change, for half a minute; no longer.

        Whoever follows calls again: what a watch may have missed, the next listing shows.
        """
        listing = self._plain(list_(_request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS)))
        objects = {item["metadata"]["uid"]: item for item in listing["items"]}
        yield list(objects.values())
        stream = Watch().stream(  # type: ignore[no-untyped-call]
            list_,
            resource_version=listing["metadata"]["resourceVersion"],
            timeout_seconds=_WATCH_SECONDS,
            _request_timeout=(_CONNECT_SECONDS, _WATCH_SECONDS + 5),
        )
        for change in stream:
            item = change["raw_object"]
            if change["type"] == "DELETED":
                objects.pop(item["metadata"]["uid"], None)
                # Its last state counts, too: an exit code may be in it.
                yield [*objects.values(), item]
            else:
                objects[item["metadata"]["uid"]] = item
            yield list(objects.values())

    # Any: the client's own types leave out what its options change, `_preload_content` for one.
    @property
    def _jobs(self) -> Any:
        return CustomObjectsApi(self.client)

    @property
    def _core(self) -> Any:
        return CoreV1Api(self.client)

    @property
    def _kind(self) -> tuple[str, str, str, str]:
        return GROUP, VERSION, self.namespace, PLURAL

    @property
    def _named(self) -> tuple[str, str, str, str, str]:
        return *self._kind, self.name

    @property
    def _label(self) -> str:
        return f"{JOB_NAME_LABEL}={self.name}"

    def _items(self, list_: Callable[..., Any], *place: str, **options: Any) -> list[Object]:
        listing = self._call(lambda: self._plain(list_(*place, **options, **_LIMIT)))
        items: list[Object] = listing["items"]
        return items

    def _plain(self, answer: Any) -> Object:
        plain: Object = kube.plain(self.client, answer)
        return plain

    def _unless_gone(self, request: Callable[[], Any]) -> Object | None:
        """Return the answer to a request about one thing, None when there is no such thing."""
        try:
            answer: Object = self._call(request)
        except ApiException as error:
            if error.status != 404:
                raise
            return None
        return answer

    def _call(self, request: Callable[[], Answer]) -> Answer:
        try:
            return _retrying(self.patience)(request)
        except ApiException as error:
            if error.status == 0:
                # A failed TLS handshake: whoever is at that address now is not the cluster.
                raise Unreachable(
                    f"somebody else than the API server answers: {error.reason}"
                ) from error
            raise


def _retrying(seconds: float) -> tenacity.Retrying:
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_exponential_jitter(multiplier=0.2, max=5),
        reraise=True,
    )


_LIMIT: dict[str, Any] = {"_request_timeout": (_CONNECT_SECONDS, _ANSWER_SECONDS)}
