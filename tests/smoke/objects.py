"""Kubernetes objects as smoke checks speak of them."""

from typing import Any


def holds(document: dict[str, Any], condition: str) -> bool:
    """Return whether `condition` is True now."""
    conditions = document.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == (condition, "True") for each in conditions)


def is_non_root(pod: dict[str, Any]) -> bool:
    """Return whether the kubelet refuses each of a pod's containers that would run as root."""
    spec = pod["spec"]
    default = spec.get("securityContext", {}).get("runAsNonRoot")
    containers = spec["containers"] + spec.get("initContainers", [])
    return all(
        each.get("securityContext", {}).get("runAsNonRoot", default) is True for each in containers
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
