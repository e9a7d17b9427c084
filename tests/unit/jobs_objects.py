"""Jobs, pods and events as the API server shows them, as far as a run looks at them."""

import json
from typing import Any

from clusters.cloud_reports import AZURE_LATE_ROLES
from jobs.model.job import TrainingJob
from jobs.observe.run_state import RunState

JOB_UID = "job-uid"
REFUSED_LOGIN = (
    'Back-off pulling image "mine.azurecr.io/mine:1": ErrImagePull: failed to pull and unpack '
    'image "mine.azurecr.io/mine:1": failed to resolve reference "mine.azurecr.io/mine:1": failed '
    "to authorize: failed to fetch anonymous token: unexpected status from GET request to "
    "https://mine.azurecr.io/oauth2/token?scope=repository%3Amine%3Apull&service=mine.azurecr.io: "
    "401 Unauthorized"
)
"""What a kubelet of AKS reports whose identity has no role: https://github.com/Azure/AKS/issues/4593."""


def declared(**fields: Any) -> TrainingJob:
    """Return a job as the stack's file declares it."""
    return TrainingJob(name="mine", image="example.org/mine:1", **fields)


def job(
    *conditions: str,
    workers: int = 1,
    message: str = "",
    uid: str = JOB_UID,
    processes: int = 1,
    elastic: bool = False,
) -> dict[str, Any]:
    master = {} if elastic else {"Master": {"replicas": 1}}
    return {
        "metadata": {"name": "mine", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "nprocPerNode": str(processes),
            "pytorchReplicaSpecs": {**master, "Worker": {"replicas": workers}},
            **({"elasticPolicy": {"minReplicas": 1}} if elastic else {}),
        },
        "status": {
            "startTime": "2026-01-01T00:00:01Z",
            **({"completionTime": "2026-01-01T00:01:01Z"} if "Succeeded" in conditions else {}),
            "conditions": [
                {"type": type_, "status": "True", "message": message} for type_ in conditions
            ],
        },
    }


OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "mine"}


def pod(
    rank: int,
    *,
    state: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    init: dict[str, Any] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    restarts: int = 0,
    created: str = "2026-01-01T00:00:02Z",
    owner: str = JOB_UID,
    phase: str = "Running",
    restart_policy: str = "OnFailure",
    master: bool = True,
) -> dict[str, Any]:
    """The pod of replica `rank`; without a `master` all are workers."""
    kind, index = ("worker", rank - master) if rank >= master else ("master", 0)
    container = {
        "name": "pytorch",
        "image": "example.org/mine:1",
        "state": state or {},
        "lastState": last or {},
        "restartCount": restarts,
        "containerID": f"containerd://{rank}-{restarts}",
    }
    init_status = {
        "name": "tcp-wait",
        "image": "tcp-wait:1",
        "state": init or {},
        "restartCount": 0,
        "containerID": (init or {}).get("terminated", {}).get("containerID", "containerd://init"),
    }
    return {
        "metadata": {
            "name": f"mine-{kind}-{index}",
            "uid": f"pod-{rank}-{created}",
            "creationTimestamp": created,
            "ownerReferences": [{**OWNER, "uid": owner}],
            "labels": {
                "training.kubeflow.org/replica-type": kind,
                "training.kubeflow.org/replica-index": str(index),
            },
        },
        "spec": {
            "nodeName": "node",
            "restartPolicy": restart_policy,
            "containers": [{"name": "pytorch", "resources": {"limits": {"memory": "1Gi"}}}],
        },
        "status": {
            "phase": phase,
            "conditions": conditions or [],
            "containerStatuses": [container],
            **({"initContainerStatuses": [init_status]} if init is not None else {}),
        },
    }


RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}


def clock(second: int, minute: int = 0) -> str:
    """Return a time in the hour of the runs of these objects."""
    return f"2026-01-01T00:{minute:02}:{second:02}Z"


def runs(rank: int, **shown: Any) -> dict[str, Any]:
    return pod(rank, state=RUNNING, **shown)


def done(rank: int, **told: Any) -> dict[str, Any]:
    return pod(rank, state=ended(0, summary(rank, **told)), phase="Succeeded")


def seen(of: str | dict[str, Any], *pods: dict[str, Any]) -> RunState:
    """Return a run of a job, or of one with a condition, after its pods were seen in this order."""
    run = RunState(job(of) if isinstance(of, str) else of, AZURE_LATE_ROLES)
    for each in pods:
        run.see_pods([each])
    return run


def beside(document: dict[str, Any], state: dict[str, Any] = RUNNING) -> dict[str, Any]:
    """A pod with a container that a webhook has added."""
    proxy = {"name": "proxy", "image": "proxy:1", "state": state, "restartCount": 0}
    document["status"]["containerStatuses"].append(proxy)
    return document


def node(name: str, ready: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def ended(
    code: int,
    message: object = "",
    *,
    reason: str | None = None,
    started: str = "2026-01-01T00:00:05Z",
    finished: str = "2026-01-01T00:01:00Z",
    container: str = "",
) -> dict[str, Any]:
    text = message if isinstance(message, str) else json.dumps(message)
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "message": text,
            "startedAt": started,
            "finishedAt": finished,
            "containerID": container or f"containerd://{code}-{finished}-{text[:20]}",
        }
    }


def summary(rank: int, samples: int = 30_000, **changed: Any) -> dict[str, Any]:
    return {
        "rank": rank,
        "world_size": 2,
        "backend": "gloo",
        "dataset": "mnist",
        "epoch_accuracies": [0.9, 0.97],
        "accuracy": 0.97,
        "samples_seen": samples,
        "loss": 0.1,
        "duration_seconds": 33.25,
        **changed,
    }


def warning(message: str, at: str = "2026-01-01T00:00:09Z") -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"kind": "Pod", "name": "mine-master-0", "uid": "x"},
    }
