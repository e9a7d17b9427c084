"""Pods that were lost to their cluster and not to their program: a retry may cure that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.watch.causes import Failure, Origin

# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
_CONDITION = "DisruptionTarget"
_WORDS = {
    "PreemptionByScheduler": "had to make room for a pod of a higher priority",
    "DeletionByTaintManager": "was removed from its node, which was lost or tainted",
    "EvictionByEvictionAPI": "was evicted, as `kubectl drain` does",
    "DeletionByPodGC": "was removed, since its node is gone",
    "TerminationByKubelet": "was ended by its node, which was short of something or shut down",
}
_LOST = frozenset({"NodeLost", "NodeShutdown", "Shutdown"})
"""What `status.reason` said of it before there was the condition, and where a node can't."""
_SOON = timedelta(seconds=60)


@dataclass(frozen=True)
class Disruption:
    """A pod that was taken away.

    Args:
        text: Which one, and how.
        pod: Its uid.
        at: When, by the cluster's clock.
    """

    text: str
    pod: str
    at: datetime

    def brought_about(self, cause: Failure | None) -> bool:
        """Return whether it explains `cause`, the failure that ended the run, if there was one."""
        if cause is None:
            return True
        if cause.exit.out_of_memory:
            return False
        if cause.replica.uid == self.pod or cause.origin is Origin.PEER:
            return True
        return timedelta(0) <= cause.finished - self.at <= _SOON


def disruption(pod: Mapping[str, Any]) -> Disruption | None:
    """Return how the cluster took a pod away; None for one that it did not."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for condition in status.get("conditions") or []:
        if condition["type"] == _CONDITION and condition["status"] == "True":
            reason = str(condition.get("reason", ""))
            words = _WORDS.get(reason, "was taken away")
            detail = ": ".join(part for part in (reason, str(condition.get("message", ""))) if part)
            return _of(pod, f"pod {name} {words} ({detail})", condition.get("lastTransitionTime"))
    if status.get("reason") in _LOST:
        return _of(pod, f"pod {name} was lost ({status['reason']}: {status.get('message', '')})")
    return None


def deleted(pod: Mapping[str, Any]) -> Disruption | None:
    """Return that somebody deletes a pod; None when nobody does."""
    if "deletionTimestamp" not in pod["metadata"]:
        return None
    return _of(pod, f"pod {pod['metadata']['name']} was deleted while its program ran")


def lost_node(
    pods: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> Disruption | None:
    """Return which node of these pods is gone or doesn't answer; None when all are well."""
    well = {node["metadata"]["name"] for node in nodes if _is_ready(node)}
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if node is not None and node not in well:
            text = f"node {node}, where pod {pod['metadata']['name']} ran, is gone or not Ready"
            return _of(pod, text)
    return None


def _of(pod: Mapping[str, Any], text: str, at: str | None = None) -> Disruption:
    moment = datetime.now(UTC) if at is None else datetime.fromisoformat(at)
    return Disruption(text, str(pod["metadata"]["uid"]), moment)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
