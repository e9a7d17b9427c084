"""What a wait that failed has to say: warning events, and the last lines of the log."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from core.manifests import held
from scripts.offline.kubernetes_standin.awaiting import pods
from scripts.offline.kubernetes_standin.cluster import Cluster, NoSuchKind
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import Object
from scripts.offline.kubernetes_standin.transport import Refusal, Unreachable

_EVENT = Kind("", "v1", "Event")
_HOLDABLE = (
    Kind("kubeflow.org", "v1", "PyTorchJob"),
    Kind("", "v1", "Pod"),
    Kind("", "v1", "PersistentVolumeClaim"),
    Kind("", "v1", "ConfigMap"),
    Kind("", "v1", "Secret"),
    Kind("", "v1", "Service"),
)
"""What is looked through for finalizers in a namespace that does not go away."""
_LOG_LINES = 15
_PODS = 2
_EVENTS = 5


def evidence(cluster: Cluster, obj: Mapping[str, Any]) -> list[str]:
    """Return conditions, warning events and log lines that help to see what is wrong.

    What the person may not read is left out: this is about another failure.
    """
    try:
        own = _pods_of(cluster, obj)
        events = [line for item in (obj, *own) for line in _events(cluster, item)]
        logs = [line for pod in own for line in _logs(cluster, pod)]
    except (Refusal, Unreachable):
        return _conditions(obj)
    return [*_conditions(obj), *dict.fromkeys(events), *logs]


def holders(cluster: Cluster, obj: Mapping[str, Any]) -> list[str]:
    """Return what holds back an object that is being deleted, and how to let it go.

    What the person may not read is left out.
    """
    found = [(str(obj["kind"]), obj["metadata"])]
    for kind in _HOLDABLE if obj["kind"] == "Namespace" else ():
        with suppress(NoSuchKind, Refusal, Unreachable):
            inside = cluster.list(kind, obj["metadata"]["name"])
            found += [(kind.kind, each["metadata"]) for each in inside]
    return [said for said in (held(kind, metadata) for kind, metadata in found) if said is not None]


def _pods_of(cluster: Cluster, obj: Mapping[str, Any]) -> list[Object]:
    if obj["kind"] == "Pod":
        return [dict(obj)]
    template = (obj.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if not labels:
        return []
    found = pods.selected(cluster, obj["metadata"]["namespace"], labels)
    unready = [pod for pod in found if (pod.get("status") or {}).get("phase") != "Succeeded"]
    return sorted(unready, key=_age)[-_PODS:]


def _age(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["creationTimestamp"])


def _conditions(obj: Mapping[str, Any]) -> list[str]:
    found = (obj.get("status") or {}).get("conditions") or ()
    return [
        f"condition {item.get('type')} is {item.get('status')}: "
        + (" ".join(str(item[key]) for key in ("reason", "message") if item.get(key)) or "-")
        for item in found
    ]


def _events(cluster: Cluster, obj: Mapping[str, Any]) -> list[str]:
    names = obj["metadata"]
    found = cluster.list(
        _EVENT,
        names.get("namespace", "default"),
        fieldSelector=f"type=Warning,involvedObject.uid={names['uid']}",
    )
    return [
        f"event {item.get('reason')} of {obj['kind']} {names['name']}: {item.get('message')}"
        for item in found[-_EVENTS:]
    ]


def _logs(cluster: Cluster, pod: Mapping[str, Any]) -> list[str]:
    lines = []
    for status in pods.containers(pod):
        state = status.get("state") or {}
        crashed = "waiting" in state and "terminated" in (status.get("lastState") or {})
        if status.get("ready") and not crashed:
            continue
        text = cluster.log(pod, status["name"], lines=_LOG_LINES, previous=crashed)
        if text:
            lines.append(
                f"last lines of pod {pod['metadata']['name']}, container {status['name']}:\n{text}"
            )
    return lines
