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
    see_also = f"See also: kubectl --namespace {namespace} describe deployment {deployment}"
    try:
        return "\n".join([*_lines(api, namespace, deployment), see_also])
    except ApiException as error:
        return f"Deployment {namespace}/{deployment} can't be read: {api_message(error)}"
    except urllib3.exceptions.HTTPError as error:
        return f"Deployment {namespace}/{deployment} can't be read: {error}"


def _lines(api: client.ApiClient, namespace: str, deployment: str) -> list[str]:
    inside = f"/api/v1/namespaces/{namespace}"
    place = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment}"
    found = ask(api, Request("GET", place), limit=_LIMIT_SECONDS)
    labels = found["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    chosen = Request("GET", f"{inside}/pods", {"labelSelector": selector})
    pods = ask(api, chosen, limit=_LIMIT_SECONDS)["items"]
    events = ask(api, Request("GET", f"{inside}/events"), limit=_LIMIT_SECONDS)["items"]

    lines = [
        f"Deployment {namespace}/{deployment}: {condition['type']}={condition['status']}, "
        f"{condition.get('message', '')}"
        for condition in found["status"].get("conditions", [])
    ]
    for pod in pods:
        lines.append(f"Pod {pod['metadata']['name']}: {_state(pod)}")
        lines += [f"  log: {line}" for line in _log(api, pod)]
    uids = {pod["metadata"]["uid"] for pod in pods}
    about = [event for event in events if event["involvedObject"].get("uid") in uids]
    lines += [
        f"Event: {event['type']} {event['reason']}, {event.get('message', '')}"
        for event in about[-_EVENTS:]
    ]
    return lines


def _state(pod: dict[str, Any]) -> str:
    """Return the pod's phase, and why its containers do not run."""
    status = pod["status"]
    unmet = [
        condition["message"]
        for condition in status.get("conditions", [])
        if condition["status"] != "True" and "message" in condition
    ]
    return "; ".join([status["phase"], *troubles(pod), *unmet])


def _log(api: client.ApiClient, pod: dict[str, Any]) -> list[str]:
    metadata = pod["metadata"]
    place = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/log"
    try:
        text = send(
            api, Request("GET", place, {"tailLines": str(_LOG_LINES)}), limit=_LIMIT_SECONDS
        )
    except (ApiException, urllib3.exceptions.HTTPError):
        # A container that never ran has none; its state, above, has the reason.
        return []
    return text.data.decode(errors="replace").splitlines()
