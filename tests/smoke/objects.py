"""Kubernetes objects as smoke checks speak of them: nouns with adjectives."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Condition:
    """One entry of an object's `status.conditions`."""

    type: str
    is_true: bool
    since: datetime


def conditions(document: dict[str, Any]) -> list[Condition]:
    """Return an object's conditions in the order in which its controller lists them."""
    return [
        Condition(
            entry["type"],
            entry["status"] == "True",
            datetime.fromisoformat(entry["lastTransitionTime"]),
        )
        for entry in document.get("status", {}).get("conditions", [])
    ]


def holds(document: dict[str, Any], condition: str) -> bool:
    """Return whether `condition` is True now."""
    return condition in {entry.type for entry in conditions(document) if entry.is_true}


@dataclass(frozen=True)
class Pod:
    """A pod, as `kubectl get pod --output json` shows it."""

    document: dict[str, Any]

    @property
    def name(self) -> str:
        name: str = self.document["metadata"]["name"]
        return name

    @property
    def labels(self) -> dict[str, str]:
        """Its labels."""
        labels: dict[str, str] = self.document["metadata"].get("labels", {})
        return labels

    @property
    def exit_codes(self) -> dict[str, int | None]:
        """Each container's exit status; None for one that hasn't ended."""
        return {
            status["name"]: status["state"].get("terminated", {}).get("exitCode")
            for status in self.document["status"].get("containerStatuses", [])
        }

    @property
    def restarts(self) -> int:
        """How often its containers were started again, init containers included."""
        status = self.document["status"]
        started = status.get("containerStatuses", []) + status.get("initContainerStatuses", [])
        return sum(container["restartCount"] for container in started)

    @property
    def is_non_root(self) -> bool:
        """Whether the kubelet refuses each of its containers that would run as root."""
        spec = self.document["spec"]
        pod = spec.get("securityContext", {})
        containers = spec["containers"] + spec.get("initContainers", [])
        return all(
            container.get("securityContext", {}).get("runAsNonRoot", pod.get("runAsNonRoot"))
            is True
            for container in containers
        )


def is_over(event: dict[str, Any], document: dict[str, Any]) -> bool:
    """Return whether a pod that warns of a slow start or answer is ready or has succeeded now.

    On a busy machine a program may take longer to answer than a probe waits, and the kubelet to the
    volumes, or the API server to know that the pod is on that node, which has no access to its
    claims before that: the kubelet tries all of it again.
    """
    beginnings = ("Readiness probe failed", "MountVolume.SetUp failed", "Unable to attach or mount")
    is_well = holds(document, "Ready") or document["status"].get("phase") == "Succeeded"
    return is_well and str(event["message"]).startswith(beginnings)


def described(event: dict[str, Any]) -> str:
    """Return an event in one line."""
    about = event["involvedObject"]
    return f"{about['kind']}/{about.get('name')}: {event['reason']}: {event['message']}"
