"""A replica's pod, as the Pod Security Standard `restricted` admits it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from core.manifests import MANAGED_BY
from jobs.spec import inputs
from jobs.spec.job import TrainingJob
from jobs.spec.mounts import MountedScript, mounts, volumes
from jobs.spec.names import CONTAINER, INPUTS_CONTAINER, JOB_LABEL, WORK
from jobs.spec.parts import Toleration
from jobs.spec.program import environment, program
from jobs.spec.resources import Share

if TYPE_CHECKING:
    from pulumi import Input

_SECONDS_TO_STOP = 10
_SECONDS_TO_COPY_OUT = 60
_USER = 65532
"""Debian's and distroless images' usual "nonroot"; numeric, so that the kubelet can check it."""
_RESTRICTED_POD = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    # A volume with many files takes minutes to be handed over, and once is enough.
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
_RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True)
class Surroundings:
    """What a pod needs that is not the job's own to say.

    Args:
        service_account: Whose token is not mounted.
        image: Of a job that has none of its own.
        script: What the job's `script` has become.
        fetching: What it takes to fetch the job's `inputs`.
    """

    service_account: str
    image: Input[str]
    script: MountedScript | None
    fetching: inputs.Fetching


def labels(job: TrainingJob) -> dict[str, str]:
    """Return the labels of a job and its pods."""
    return {**job.labels, **MANAGED_BY, JOB_LABEL: job.name}


def template(job: TrainingJob, share: Share, around: Surroundings) -> dict[str, Any]:
    """Return the template of the pods of one role."""
    chosen = {
        "nodeSelector": job.node_selector,
        "tolerations": [_plain(each) for each in job.tolerations],
        "imagePullSecrets": [{"name": name} for name in job.pull_secrets],
        "priorityClassName": job.priority_class,
    }
    return {
        "metadata": {
            "labels": labels(job),
            # A mesh's sidecar would never exit, and would stand between the ranks.
            "annotations": {"sidecar.istio.io/inject": "false", **job.annotations},
        },
        "spec": {
            "serviceAccountName": around.service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # Python as process 1 ignores SIGTERM, so a stop would always take all of it.
            "terminationGracePeriodSeconds": (
                _SECONDS_TO_STOP if job.outputs is None else _SECONDS_TO_COPY_OUT
            ),
            "securityContext": _RESTRICTED_POD,
            **{key: value for key, value in chosen.items() if value},
            **({"initContainers": [_fetching(job, share, around)]} if job.inputs else {}),
            "containers": [_container(job, share, around)],
            "volumes": [
                *volumes(job, share, around.script),
                *inputs.volumes(job, around.fetching.lent),
            ],
        },
    }


def _container(job: TrainingJob, share: Share, around: Surroundings) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": around.image if job.image is None else job.image,
        "imagePullPolicy": job.pull_policy,
        **program(job, share, None if around.script is None else around.script.entry),
        "workingDir": WORK,
        "env": environment(job, share),
        "resources": share.manifest(),
        "securityContext": _RESTRICTED_CONTAINER,
        # A rank's result, or its error; without either the end of its log.
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(job, around.script),
    }


def _fetching(job: TrainingJob, share: Share, around: Surroundings) -> dict[str, Any]:
    """Return the container that fetches the job's inputs, before its own one starts."""
    return {
        "name": INPUTS_CONTAINER,
        "image": around.fetching.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(inputs.FETCH),
        "args": inputs.told(job, around.fetching.lent),
        "workingDir": WORK,
        "env": inputs.of_the_job(environment(job, share)),
        # A pod asks for the most that its containers do one after the other: for no more than
        # without this one.
        "resources": replace(share, gpus=0).manifest(),
        "securityContext": _RESTRICTED_CONTAINER,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts(job, None), *inputs.mounts(job, around.fetching.lent)],
    }


def _plain(toleration: Toleration) -> dict[str, Any]:
    said = {name: getattr(toleration, name) for name in Toleration.__dataclass_fields__}
    return {to_camel(name): value for name, value in said.items() if value is not None}
