"""The PyTorchJob that runs a training job; the Pod Security Standard `restricted` admits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from core.manifests import MANAGED_BY
from jobs.model import inputs
from jobs.model.job import TrainingJob
from jobs.model.names import API_VERSION, CONTAINER, INPUTS_CONTAINER, JOB_LABEL, WORK
from jobs.model.parts import Toleration, Volume
from jobs.model.program import environment, program
from jobs.model.replicas import Share, roles, share
from jobs.model.volumes import Script, mounts, pod_volumes

if TYPE_CHECKING:
    from pulumi import Input

_BACKSTOP_SECONDS = 120
_SECONDS_TO_STOP = 10
SECONDS_TO_COPY_OUT = 60
"""Between SIGTERM and SIGKILL: what a program leaves is copied in that time."""
_USER = 65532
"""Debian's and distroless images' usual "nonroot"; numeric, so that the kubelet can check it."""
_RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    # To change the owner of a volume with many files takes minutes, and once is enough.
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER = {
    "workingDir": WORK,
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
    # A rank's result, or its error; without either the end of its log.
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "FallbackToLogsOnError",
}
_TOLERATIONS = TypeAdapter(tuple[Toleration, ...])
OF_THE_PROGRAM = frozenset({"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"})
"""Variables that mean something in the image of the job's program alone."""


def manifest(  # noqa: PLR0913 - all but the job by name
    job: TrainingJob,
    *,
    namespace: str,
    service_account: str,
    trainer_image: Input[str],
    script: Script | None = None,
    fetch_image: Input[str] | None = None,
    other_volumes: Mapping[str, Volume] = MappingProxyType({}),
    keeps_data: bool = False,
) -> dict[str, Any]:
    """Return the PyTorchJob that runs `job`.

    Args:
        job: What to run.
        namespace: Where.
        service_account: Of its pods; its token is not mounted.
        trainer_image: What a `job` without `image` runs; of one with a `build` what was built.
        script: The files of its `script`, where it has one.
        fetch_image: The trainer's image that fetches its `inputs`; `trainer_image` by default.
        other_volumes: The volumes of other jobs in which inputs lie, by the input's name.
        keeps_data: Whether the claim `slipway-data` keeps the `data` of jobs; else each pod's goes.

    Raises:
        ValueError: `script` is missing, or the job has none.
    """
    if (job.script is None) != (script is None):
        raise ValueError(f"job {job.name}: `script` goes with a job that has one, and it must")
    image = trainer_image if job.image is None else job.image
    fetcher = trainer_image if fetch_image is None else fetch_image
    # No program may change the cache of its data.
    cache = [{**inputs.CACHE_MOUNT, "readOnly": True}] if inputs.needs_cache(job) else []

    def template(share: Share) -> dict[str, Any]:
        variables = environment(job, share)
        container = {
            "name": CONTAINER,
            "image": image,
            "imagePullPolicy": job.pull_policy,
            **program(job, share, None if script is None else script.entry),
            "env": variables,
            "resources": share.manifest(),
            "volumeMounts": [*mounts(job, script), *cache],
            **_CONTAINER,
        }
        fetching = {
            "name": INPUTS_CONTAINER,
            "image": fetcher,
            "imagePullPolicy": "IfNotPresent",
            "command": list(inputs.FETCH),
            "args": inputs.arguments(job, other_volumes),
            "env": [each for each in variables if each["name"] not in OF_THE_PROGRAM],
            # A pod requests the most that its containers need one after the other, so this one
            # adds nothing.
            "resources": replace(share, gpus=0).manifest(),
            "volumeMounts": [*mounts(job, None), *inputs.mounts(job, other_volumes)],
            **_CONTAINER,
        }
        volumes = [
            *pod_volumes(job, share, script),
            *inputs.volumes(job, other_volumes, keeps_data=keeps_data),
        ]
        return {
            "metadata": {
                "labels": dict(labels),
                # A mesh's sidecar would never exit, and would stand between the ranks.
                "annotations": {"sidecar.istio.io/inject": "false", **job.annotations},
            },
            "spec": {
                **_pod(job, service_account),
                **({"initContainers": [fetching]} if job.fetches else {}),
                "containers": [container],
                "volumes": volumes,
            },
        }

    labels = {**job.labels, **MANAGED_BY, JOB_LABEL: job.name}
    spec = {
        "runPolicy": _run_policy(job),
        # The operator's own default is "auto", which torchrun takes for the node's cores.
        "nprocPerNode": str(job.processes_per_node),
        "pytorchReplicaSpecs": {
            role: {
                "replicas": count,
                "restartPolicy": job.restart_policy,
                "template": template(share(job, role)),
            }
            for role, count in roles(job).items()
        },
    }
    if job.elastic is not None:
        spec["elasticPolicy"] = {
            "minReplicas": job.elastic.least(job.workers),
            "maxReplicas": job.elastic.most(job.workers),
            "maxRestarts": job.elastic.max_restarts,
            "rdzvBackend": "c10d",
        }
    metadata: dict[str, Any] = {"name": job.name, "namespace": namespace, "labels": labels}
    if job.annotations:
        metadata["annotations"] = dict(job.annotations)
    return {"apiVersion": API_VERSION, "kind": "PyTorchJob", "metadata": metadata, "spec": spec}


def _pod(job: TrainingJob, service_account: str) -> dict[str, Any]:
    """Return what the pods of all roles have, besides their containers and volumes."""
    optional = {
        "nodeSelector": job.node_selector,
        "tolerations": _TOLERATIONS.dump_python(
            job.tolerations, mode="json", by_alias=True, exclude_none=True
        ),
        "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
        "priorityClassName": job.priority_class,
    }
    return {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Python as process 1 ignores SIGTERM, so a stop would always take all of it.
        "terminationGracePeriodSeconds": (
            _SECONDS_TO_STOP if job.outputs is None else SECONDS_TO_COPY_OUT
        ),
        "securityContext": _RESTRICTED_POD,
        **{key: value for key, value in optional.items() if value},
    }


def _run_policy(job: TrainingJob) -> dict[str, Any]:
    ttl = job.ttl_seconds_after_finished
    return {
        # Pods stay: their logs and exit codes are to be read after the end, too.
        "cleanPodPolicy": job.clean_pod_policy,
        "backoffLimit": job.max_restarts,
        # `pulumi up` ends a run at its timeout; this stops one that no `up` waits for.
        "activeDeadlineSeconds": job.timeout + _BACKSTOP_SECONDS,
        **({} if ttl is None else {"ttlSecondsAfterFinished": ttl}),
    }
