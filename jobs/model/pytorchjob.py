"""The manifest of Kubeflow's PyTorchJob, and the state of the object and its pods.

This module is quick to import. Objects are decoded JSON from the API server.
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/apis/kubeflow.org/v1/pytorch_types.go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from core.manifests import condition, holds
from jobs.model.names import RUN_LABEL

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

API_VERSION = "kubeflow.org/v1"
API_PATH = f"/apis/{API_VERSION}/namespaces/{{namespace}}/pytorchjobs"
JOB_NAME_LABEL = "training.kubeflow.org/job-name"
"""The label that the operator sets on a job's pods and Services."""
TYPE_LABEL = "training.kubeflow.org/replica-type"
INDEX_LABEL = "training.kubeflow.org/replica-index"
DEADLINE = "active longer than specified deadline"
"""Part of the message in the Failed condition of a job that is past its deadline:
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go"""
_INDEX = re.compile("[0-9]{1,6}")
REPEATS = "Error pod "
"""The message prefix on operator events that repeat a pod's events:
https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/pod.go, RecordAbnormalPods"""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""A job's queue in Kueue: https://kueue.sigs.k8s.io/docs/tasks/run/kubeflow/pytorchjobs/"""


@dataclass(frozen=True)
class Topology:
    """A job's replicas and processes.

    Replicas are numbered from 0: the Master first, except in elastic jobs, then the Workers.
    Their processes' ranks are in the same order.
    """

    replicas: int  # each is one pod
    processes: int = 1  # in each replica
    elastic: bool = False  # only Workers, which may be lost and replaced while it trains

    @classmethod
    def of_declared(cls, job: Mapping[str, Any]) -> Topology:
        """Return the topology of a declared job (`jobs.model.job.declaration`)."""
        elastic = job.get("elastic") is not None
        replicas = int(job.get("workers", 1)) + (not elastic)
        return cls(replicas, int(job.get("processesPerNode", 1)), elastic)

    @classmethod
    def of_object(cls, job: Mapping[str, Any]) -> Topology:
        spec = job["spec"]
        roles = spec["pytorchReplicaSpecs"].values()
        replicas = sum(int(role.get("replicas", 1)) for role in roles)
        return cls(replicas, int(spec.get("nprocPerNode", 1)), "elasticPolicy" in spec)

    @property
    def world_size(self) -> int:
        return self.replicas * self.processes

    def first_rank(self, replica: int) -> int:
        return replica * self.processes

    def span(self, replica: int) -> str:
        """Return a replica's rank numbers: "1", or "2-3"."""
        first = self.first_rank(replica)
        return f"{first}" if self.processes == 1 else f"{first}-{first + self.processes - 1}"

    def ranks(self, replica: int) -> str:
        """Return a replica's ranks as text: "rank 1", or "ranks 2 to 3"."""
        span = self.span(replica)
        return f"rank {span}" if self.processes == 1 else f"ranks {span.replace('-', ' to ')}"


def document(
    job: TrainingJob, metadata: Mapping[str, Any], replicas: Mapping[Any, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the PyTorchJob for `job`; `replicas` contains each role's count and pod template."""
    ttl = job.ttl_seconds_after_finished
    spec: dict[str, Any] = {
        "runPolicy": {
            # Pods stay, so that their logs and exit codes can be read after the job ends.
            "cleanPodPolicy": "None" if job.hold else job.clean_pod_policy,
            "backoffLimit": 1 if job.hold else job.max_restarts,
            # Stops a run that no `pulumi up` is waiting for; `up` itself ends a run at its timeout.
            "activeDeadlineSeconds": job.timeout + job.hold + 120,
            **({} if ttl is None else {"ttlSecondsAfterFinished": ttl}),
        },
        # The operator's default is "auto", with which torchrun starts a process per core.
        "nprocPerNode": str(job.processes_per_node),
        "pytorchReplicaSpecs": {
            # Past the backoff limit the operator would remove held pods.
            role: {**each, "restartPolicy": "Never" if job.hold else job.restart_policy}
            for role, each in replicas.items()
        },
    }
    if job.elastic is not None:
        spec["elasticPolicy"] = {
            "minReplicas": job.elastic.least(job.workers),
            "maxReplicas": job.elastic.most(job.workers),
            "maxRestarts": job.elastic.max_restarts,
            "rdzvBackend": "c10d",
        }
    return {"apiVersion": API_VERSION, "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def host(job: str, role: str, index: int) -> str:
    """Return the name of a replica's pod and Service."""
    return f"{job}-{role.lower()}-{index}"


def templates(job: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return each role's pod template, keyed by the role in lower case, as in labels."""
    roles = job["spec"]["pytorchReplicaSpecs"]
    return {role.lower(): each["template"] for role, each in roles.items()}


def run_of(thing: Mapping[str, Any]) -> str | None:
    """Return the run ID of a PyTorchJob or pod, or None if it lacks that label."""
    return (thing["metadata"].get("labels") or {}).get(RUN_LABEL)


def conditions(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a job's conditions whose status is True."""
    entries = (job.get("status") or {}).get("conditions") or []
    return [each for each in entries if each.get("status") == "True"]


def message_of(job: Mapping[str, Any], type_: str) -> str | None:
    """Return the message in a job's condition, or None if the condition's status is not True."""
    return str(condition(job, type_).get("message", "")) if holds(job, type_) else None


def has_ended(job: Mapping[str, Any]) -> bool:
    """Return whether a job has the condition Succeeded or Failed."""
    return holds(job, "Succeeded") or holds(job, "Failed")


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Return whether a job is suspended, by a user or Kueue, and not yet resumed."""
    is_set = bool(job["spec"].get("runPolicy", {}).get("suspend"))
    return not has_ended(job) and (is_set or holds(job, "Suspended"))


def resumed(job: Mapping[str, Any]) -> float:
    """Return the seconds from a job's creation until it was last resumed; 0 if never resumed.

    The job's deadline also counts from then, since the operator resets `startTime`.
    https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/controller.v1/common/job.go
    """
    suspended = condition(job, "Suspended")
    if suspended.get("status") != "False":
        return 0.0
    times = (suspended["lastTransitionTime"], job["metadata"]["creationTimestamp"])
    last, first = map(datetime.fromisoformat, times)
    return (last - first).total_seconds()


def times(job: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return a job's start time, or its creation time if not started, and its completion time."""
    status = job.get("status") or {}
    started = status.get("startTime") or job["metadata"]["creationTimestamp"]
    return started, status.get("completionTime")


def is_replica(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has a replica's labels, which does not prove that it is one."""
    labels = pod["metadata"].get("labels") or {}
    return TYPE_LABEL in labels and _INDEX.fullmatch(labels.get(INDEX_LABEL, "")) is not None


def replica_number(pod: Mapping[str, Any], topology: Topology) -> int:
    """Return a replica's number from 0, as in `Topology`."""
    labels = pod["metadata"]["labels"]
    is_behind = labels[TYPE_LABEL] == "worker" and not topology.elastic
    return int(labels[INDEX_LABEL]) + is_behind


def is_of(pod: Mapping[str, Any], uid: str) -> bool:
    """Return whether a pod belongs to the job with that UID, not to another of the same name."""
    return any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or ())
