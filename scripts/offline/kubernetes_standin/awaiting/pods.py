"""What keeps a pod from running, and where it says so."""

from collections.abc import Iterable, Mapping
from typing import Any

from scripts.offline.kubernetes_standin.awaiting.verdict import READY, Verdict, condition, explain
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import Object

POD = Kind("", "v1", "Pod")

# The kubelet's reasons (pkg/kubelet/images, pkg/kubelet/container) that do not pass by waiting.
_STUCK = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
_RESTARTS_UNTIL_CRASH_LOOP = 2


def look(_: Cluster, pod: Mapping[str, Any]) -> Verdict:
    """A pod is ready when it is Ready or has succeeded."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded" or condition(pod, "Ready").get("status") == "True":
        return READY
    if phase == "Failed":
        return Verdict("failed", f"pod {_name(pod)} failed: {_failure(pod)}")
    return trouble([pod]) or Verdict("waiting", f"pod {_name(pod)} is {phase or 'not seen yet'}")


def trouble(pods: Iterable[Mapping[str, Any]]) -> Verdict | None:
    """Return what keeps one of `pods` from starting, or None."""
    for pod in pods:
        for status in containers(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason")
            crashes = (
                reason == "CrashLoopBackOff"
                and status.get("restartCount", 0) >= _RESTARTS_UNTIL_CRASH_LOOP
            )
            if reason in _STUCK or crashes:
                return Verdict(
                    "failing",
                    f"pod {_name(pod)}, container {status['name']}: {explain(waiting)}"
                    + (f" ({_exit(status)})" if crashes else ""),
                )
    return None


def progress(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return why the first pod that isn't ready isn't, empty when there is nothing to say."""
    for pod in pods:
        unscheduled = condition(pod, "PodScheduled")
        if unscheduled.get("status") == "False":
            return f"pod {_name(pod)}: {explain(unscheduled)}"
        for status in containers(pod):
            waiting = (status.get("state") or {}).get("waiting")
            if waiting:
                return f"pod {_name(pod)}, container {status['name']}: {explain(waiting)}"
    return ""


def containers(pod: Mapping[str, Any]) -> list[Object]:
    """Return the status of every container, init containers first."""
    status = pod.get("status") or {}
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def selected(cluster: Cluster, namespace: str, labels: Mapping[str, str]) -> list[Object]:
    """Return the pods that bear `labels`."""
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return cluster.list(POD, namespace, labelSelector=selector)


def _failure(pod: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    exits = [_exit(container) for container in containers(pod)]
    return explain(status) or ", ".join(filter(None, exits)) or "no reason given"


def _exit(status: Mapping[str, Any]) -> str:
    for key in ("state", "lastState"):
        ended = (status.get(key) or {}).get("terminated")
        if ended:
            return f"exit code {ended.get('exitCode')}, {explain(ended) or 'no reason given'}"
    return ""


def _name(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["name"])
