"""What a PyTorchJob and its pods show: conditions, and which replica a pod is. Pure.

Objects are the API server's JSON. `jobs.model.pytorchjob` has the shape of what is submitted.
"""

import re
from collections.abc import Mapping
from typing import Any

from core.manifests import condition, holds
from jobs.api.lines import moment
from jobs.model.pytorchjob import INDEX_LABEL, TYPE_LABEL, Topology

DEADLINE = "active longer than specified deadline"
"""A part of the message of the condition Failed when it is about the job's deadline:
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go"""
_INDEX = re.compile("[0-9]{1,6}")
REPEATS = "Error pod "
"""The beginning of the message of an operator's event that repeats those of a pod:
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/pod.go, RecordAbnormalPods"""


def conditions(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions of a job that hold."""
    found = (job.get("status") or {}).get("conditions") or []
    return [each for each in found if each.get("status") == "True"]


def message_of(job: Mapping[str, Any], type_: str) -> str | None:
    """Return the message of a condition of a job that holds; None where it does not."""
    return str(condition(job, type_).get("message", "")) if holds(job, type_) else None


def has_ended(job: Mapping[str, Any]) -> bool:
    """Return whether the operator calls a job Succeeded or Failed."""
    return holds(job, "Succeeded") or holds(job, "Failed")


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Return whether a user or Kueue has suspended a job, until the operator has resumed it."""
    is_set = bool(job["spec"].get("runPolicy", {}).get("suspend"))
    return not has_ended(job) and (is_set or holds(job, "Suspended"))


def resumed(job: Mapping[str, Any]) -> float:
    """Return how many seconds after its creation a job was resumed last; 0 if it never was.

    Kubernetes counts its deadline from then, too: the operator sets `startTime` anew.
    https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go
    """
    found = condition(job, "Suspended")
    if found.get("status") != "False":
        return 0.0
    pause = moment(found["lastTransitionTime"]) - moment(job["metadata"]["creationTimestamp"])
    return pause.total_seconds()


def times(job: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return when the operator began with a job, or it was created, and when it completed it."""
    status = job.get("status") or {}
    started = status.get("startTime") or job["metadata"]["creationTimestamp"]
    return started, status.get("completionTime")


def is_replica(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has the labels of one that the operator made for a job, as any may."""
    labels = pod["metadata"].get("labels") or {}
    return TYPE_LABEL in labels and _INDEX.fullmatch(labels.get(INDEX_LABEL, "")) is not None


def replica_number(pod: Mapping[str, Any], topology: Topology) -> int:
    """Return which replica a pod is, from 0: the Master comes first, if the job has one."""
    labels = pod["metadata"]["labels"]
    is_behind = labels[TYPE_LABEL] == "worker" and topology.has_master
    return int(labels[INDEX_LABEL]) + is_behind


def is_of(pod: Mapping[str, Any], uid: str) -> bool:
    """Return whether a pod belongs to the job of that uid, and to no other of its name."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == uid for owner in owners)
