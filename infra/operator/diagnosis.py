"""Why a Deployment is not available: what the cluster reports, for an error's text."""

from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from core.kube import Request, api_message, ask, send
from core.manifests import troubles

_LOG_LINES = 20
_EVENTS = 10
_LIMIT_SECONDS = 5


def explain(api: client.ApiClient, namespace: str, deployment: str) -> str:
    """Return the Deployment's conditions, its pods' states and events, and the end of their logs.

    A part that can't be read is replaced by the reason.
    """
    name = f"Deployment {namespace}/{deployment}"
    see_also = f"See also: kubectl --namespace {namespace} describe deployment {deployment}"
    inside = f"/api/v1/namespaces/{namespace}"

    def read(path: str, query: dict[str, str] | None = None) -> Any:
        return ask(api, Request("GET", path, query or {}), limit=_LIMIT_SECONDS)

    try:
        found = read(f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}")
        labels = found["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = read(f"{inside}/pods", {"labelSelector": selector})["items"]
        events = read(f"{inside}/events")["items"]
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        return f"{name} can't be read: {api_message(error)}"
    lines = [
        f"{name}: {each['type']}={each['status']}, {each.get('message', '')}"
        for each in found["status"].get("conditions", [])
    ]
    for pod in pods:
        lines.append(f"Pod {pod['metadata']['name']}: {_state(pod)}")
        log = f"{inside}/pods/{pod['metadata']['name']}/log"
        lines += [f"  log: {line}" for line in _end(api, log)]
    uids = {pod["metadata"]["uid"] for pod in pods}
    about = [event for event in events if event["involvedObject"].get("uid") in uids]
    lines += [
        f"Event: {event['type']} {event['reason']}, {event.get('message', '')}"
        for event in about[-_EVENTS:]
    ]
    return "\n".join([*lines, see_also])


def _state(pod: dict[str, Any]) -> str:
    """Return the pod's phase, and why its containers do not run."""
    status = pod["status"]
    unmet = [
        condition["message"]
        for condition in status.get("conditions", [])
        if condition["status"] != "True" and "message" in condition
    ]
    return "; ".join([status["phase"], *troubles(pod), *unmet])


def _end(api: client.ApiClient, log: str) -> list[str]:
    request = Request("GET", log, {"tailLines": str(_LOG_LINES)})
    try:
        text = send(api, request, limit=_LIMIT_SECONDS).data
    except (ApiException, urllib3.exceptions.HTTPError):
        # A container that never ran has none; its state, above, has the reason.
        return []
    return text.decode(errors="replace").splitlines()
