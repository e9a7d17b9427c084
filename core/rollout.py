"""Wait for a Deployment. Pulumi's own wait would end while the updated pods are still failing."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kubernetes.client import ApiClient

from core.kube import REQUEST_ERRORS, UNREACHABLE, Request, api_message, ask, reason, send
from core.manifests import troubles
from core.wait import NotYet

REQUEST_SECONDS = 5
_APPS = "/apis/apps/v1"


@dataclass(frozen=True)
class Rollout:
    """Access to a Deployment and its pods."""

    api: ApiClient
    namespace: str
    deployment: str
    own: bool = True
    """False if another party owns the Deployment and may update it; then one ready pod suffices."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.deployment}"

    def probe(self) -> None:
        """Raise `NotYet` unless the pods are ready, or the same errors as `core.kube.ask`."""
        deployment = self._read()
        replicas, ready = deployment["spec"]["replicas"], _status(deployment, "readyReplicas")
        is_updated = is_of_current_template(deployment) and ready == replicas
        if not (is_updated if self.own else _is_observed(deployment) and ready > 0):
            raise NotYet(f"{ready} of {replicas} pods in Deployment {self} are ready")

    def explain(self) -> str:
        """Describe the Deployment's conditions, and its pods' states, logs and latest events."""
        try:
            deployment = self._read()
            labels = deployment["spec"]["selector"]["matchLabels"]
            selector = ",".join(f"{key}={value}" for key, value in labels.items())
            pods = self.get("pods", labelSelector=selector)["items"]
            events = self.get("events")["items"]
        except REQUEST_ERRORS as error:
            return f"\nDeployment {self} can't be read: {api_message(error)}"
        lines = [
            f"Deployment {self}: {each['type']}={each['status']}, {each.get('message', '')}"
            for each in deployment["status"].get("conditions", [])
        ]
        for pod in pods:
            name = pod["metadata"]["name"]
            lines += [f"Pod {name}: {_state(pod)}", *(f"  log: {each}" for each in self.log(name))]
        uids = {pod["metadata"]["uid"] for pod in pods}
        about = [event for event in events if event["involvedObject"].get("uid") in uids]
        lines += [
            f"Event: {event['type']} {event['reason']}, {event.get('message', '')}"
            for event in about[-10:]
        ]
        describe = f"--namespace {self.namespace} describe deployment {self.deployment}"
        return "\n".join(["", *lines, f"For more, run: kubectl {describe}"])

    def get(self, thing: str, group: str = "/api/v1", **query: str) -> Any:
        """Return the object or list at a path in the namespace. Raises the same errors as `ask`."""
        return ask(self.api, Request("GET", self.path(thing, group), query), limit=REQUEST_SECONDS)

    def path(self, thing: str, group: str = "/api/v1") -> str:
        """Return the API path of an object in the namespace."""
        return f"{group}/namespaces/{self.namespace}/{thing}"

    def delete(self) -> None:
        """Delete the Deployment; its pods end afterwards. Raises the same errors as `ask`."""
        path = self.path(f"deployments/{self.deployment}", _APPS)
        ask(self.api, Request("DELETE", path), limit=REQUEST_SECONDS)

    def _read(self) -> Any:
        return self.get(f"deployments/{self.deployment}", _APPS)

    def log(self, pod: str, **query: str) -> list[str]:
        """Return the last lines of a pod's log, or none if it can't be read."""
        request = Request("GET", self.path(f"pods/{pod}/log"), {"tailLines": "30", **query})
        try:
            text = send(self.api, request, limit=REQUEST_SECONDS).data
        except REQUEST_ERRORS:
            return []  # A container that never ran has no log; its state gives the reason.
        return text.decode(errors="replace").splitlines()


def is_of_current_template(deployment: Mapping[str, Any]) -> bool:
    """Return whether a Deployment has replaced all pods of earlier templates, ready or not."""
    is_complete = _status(deployment, "updatedReplicas") == deployment["spec"]["replicas"]
    return _is_observed(deployment) and is_complete


def _is_observed(deployment: Mapping[str, Any]) -> bool:
    return _status(deployment, "observedGeneration") >= int(deployment["metadata"]["generation"])


def _status(deployment: Mapping[str, Any], name: str) -> int:
    return int(deployment.get("status", {}).get(name, 0))


@contextmanager
def not_ready_on_errors() -> Iterator[None]:
    """Raise `NotYet` if the API server rejects a request or is not responding."""
    try:
        yield
    except UNREACHABLE as error:
        raise NotYet(reason(error)) from error


def _state(pod: dict[str, Any]) -> str:
    status = pod["status"]
    unmet = [
        condition["message"]
        for condition in status.get("conditions", [])
        if condition["status"] != "True" and "message" in condition
    ]
    return "; ".join([status["phase"], *troubles(pod), *unmet])
