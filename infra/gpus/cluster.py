"""Looks at a cluster's nodes with GPUs, and tries one of their GPUs in a pod."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from clusters import autoscaler
from clusters.pools import GpuPool
from core.kube import Request, ask, send
from core.manifests import troubles
from infra.gpus.manifests import NAMESPACE, PLUGIN, PROBE
from infra.gpus.reasons import Object, Seen

_LIMIT_SECONDS = 5
_LOG_LINES = 30
_SETTLED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class GpuCluster:
    """One cluster, and the namespace in which a GPU is tried.

    Args:
        api: Connected to it.
        namespace: Of the jobs.

    Raises:
        ApiException: the API server refuses something.
        urllib3.exceptions.HTTPError: it does not answer.
    """

    api: client.ApiClient
    namespace: str

    def nodes(self, pool: GpuPool) -> list[Object]:
        """Return the nodes that have the pool's labels."""
        labels = ",".join(f"{key}={value}" for key, value in pool.labels.items())
        return self._items("/api/v1/nodes", {"labelSelector": labels})

    def look(self, pool: GpuPool) -> Seen:
        """Return what explains why nodes do not offer GPUs, as far as this account may read it."""
        seen = Seen(self.nodes(pool))
        plugins, logs, warnings = self._plugins() if pool.device_plugin else ([], {}, [])
        return Seen(seen.nodes, plugins, logs, warnings, self._setbacks())

    def start_probe(self, pod: dict[str, Any]) -> None:
        """Create the pod that tests a GPU; raises the API server's 409 while one still exists."""
        self._ask(Request("POST", f"{_in(self.namespace)}/pods", body=pod))

    def probe(self) -> Object | None:
        """Return the pod that tries a GPU, None without one."""
        try:
            pod: Object = self._ask(Request("GET", self._probe))
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return pod

    def end_probe(self) -> None:
        """Delete that pod; does nothing when it does not exist."""
        try:
            self._ask(Request("DELETE", self._probe, {"gracePeriodSeconds": "0"}))
        except ApiException as error:
            if error.status != 404:
                raise

    def _plugins(self) -> tuple[list[Object], dict[str, list[str]], list[str]]:
        selector = {"labelSelector": f"app.kubernetes.io/name={PLUGIN}"}
        try:
            pods = self._items(f"{_in(NAMESPACE)}/pods", selector)
            events = self._items(f"{_in(NAMESPACE)}/events")
        except ApiException:
            return [], {}, []
        names = [str(pod["metadata"]["name"]) for pod in pods]
        warnings = [str(event.get("message", "")) for event in events if _warns(event)]
        return pods, {name: self._log(name) for name in names}, warnings

    def _log(self, pod: str) -> list[str]:
        for previous in ("false", "true"):
            query = {"tailLines": str(_LOG_LINES), "previous": previous}
            request = Request("GET", f"{_in(NAMESPACE)}/pods/{pod}/log", query)
            try:
                text = send(self.api, request, limit=_LIMIT_SECONDS).data
            except ApiException:
                continue  # It has not run yet, or not twice.
            if lines := text.decode(errors="replace").splitlines():
                return lines
        return []

    def _setbacks(self) -> list[str]:
        name, place = autoscaler.STATUS, _in(autoscaler.NAMESPACE)
        about = {"fieldSelector": f"involvedObject.name={name}"}
        try:
            found = self._ask(Request("GET", f"{place}/configmaps/{name}"))
            failed = self._items(f"{place}/events", about)
        except ApiException:
            return []  # No autoscaler runs, or this account may not see it.
        return autoscaler.setbacks((found.get("data") or {}).get("status"), failed)

    @property
    def _probe(self) -> str:
        return f"{_in(self.namespace)}/pods/{PROBE}"

    def _items(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
        items: list[Object] = self._ask(Request("GET", path, query or {}))["items"]
        return items

    def _ask(self, request: Request) -> Any:
        return ask(self.api, request, limit=_LIMIT_SECONDS)


def _in(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def settled(pod: Object) -> bool:
    """Return whether a pod has come to its end."""
    return (pod.get("status") or {}).get("phase") in _SETTLED


def message_of(pod: Object) -> Mapping[str, Any] | None:
    """Return what the pod that tried a GPU found; None when it left nothing."""
    for status in pod["status"].get("containerStatuses") or []:
        text = status["state"].get("terminated", {}).get("message", "")
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, Mapping):
            return message
    return None


def obstacle(pod: Object) -> str:
    """Return what a pod that tries a GPU waits for, or what became of it."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", condition.get("reason", "")))
    if trouble := next(troubles(pod), None):
        return f"{trouble} on node {pod['spec'].get('nodeName')}"
    state = (status.get("reason"), status.get("message"))
    return ": ".join(str(each) for each in state if each) or f"it is {status.get('phase')}"


def _warns(event: Object) -> bool:
    return event.get("type") == "Warning"
