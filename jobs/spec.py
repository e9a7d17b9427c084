"""A training job as a value, and the PyTorchJob manifest that it stands for.

Pure: the same job always gives the same manifest, whatever the time, host or cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

if TYPE_CHECKING:
    from pulumi import Input

API_VERSION = "kubeflow.org/v1"
CONTAINER = "pytorch"
"""The name by which the training operator finds a replica's container."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "slipway"}
JOB_LABEL = "slipway.dev/job"

_RANK_SECONDS_TO_STOP = 10
_BACKSTOP_SECONDS = 120
_SHARED_MEMORY = "256Mi"
_USER = 65532
"""Debian's and distroless images' usual "nonroot"; numeric, so that the kubelet can check it."""


def _text(value: object) -> object:
    """Let a YAML number stand for a quantity: `cpu: 2` means `cpu: "2"`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _operator_leaves_free(name: str) -> str:
    if name in _OPERATOR_SETS or name.startswith("PET_"):
        raise ValueError("a name that the training operator does not set itself")
    return name


_OPERATOR_SETS = frozenset({"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"})

# Descriptions are what a person is told that the field takes.
Name = Annotated[
    str,
    Field(
        # DNS-1035, as the operator's webhook demands; its pods' names are longer and may have 63.
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=40,
        description="a DNS label: at most 40 of a-z, 0-9 and -, a letter first and no - last",
    ),
]
Cpu = Annotated[
    str,
    BeforeValidator(_text),
    Field(
        pattern=r"^([1-9]\d*(\.\d{1,3})?|0\.\d{0,2}[1-9]|[1-9]\d*m)$",
        description="cores above 0, such as 2, 0.5 or 500m",
    ),
]
Memory = Annotated[
    str,
    Field(
        pattern=r"^[1-9]\d*(Ki|Mi|Gi|Ti|k|M|G|T)$",
        description="an amount above 0 with its unit, such as 512Mi or 2Gi",
    ),
]
Variable = Annotated[
    str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), BeforeValidator(_operator_leaves_free)
]
Value = Annotated[str, Field(description='text; a number stands in quotes, such as "1"')]
Words = Annotated[tuple[str, ...], Field(min_length=1)]


@dataclass(
    frozen=True,
    kw_only=True,
    config=ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, validate_by_name=True),
)
class TrainingJob:
    """One distributed training run. In the stack's configuration the keys are camelCase.

    Args:
        name: The PyTorchJob's name.
        module: The program of the trainer's image to run; a job has either it, or `image`
            and `command`.
        image: An image of one's own.
        command: What to run in it.
        args: Its arguments.
        backend: Of torch.distributed; nccl asks for one GPU for each replica.
        workers: Worker replicas; the Master (rank 0) comes on top.
        epochs: Passes over all training samples.
        batch_size: Samples of one step on one rank.
        learning_rate: Of one rank; the trainer scales it with the world size.
        momentum: Of the optimizer.
        seed: Of the weights and the order of the samples.
        cpu: Cores that each replica is sure to have; it may use more while others idle.
        memory: Of each replica, `/dev/shm` included; the most it may use.
        restart_policy: Whether a container that failed is started again.
        backoff_limit: How many restarts, over all ranks, end the run as failed. With 1, the
            default, the first failed container ends it and none is started again, while a pod
            whose node was lost is replaced; with 2 one restart is tolerated.
        timeout: Seconds after which the run is stopped.
        start_timeout: Seconds within which every rank must have started.
        env: Environment variables besides.

    Raises:
        pydantic.ValidationError: with every field that is not allowed.
    """

    name: Name
    module: Literal["mnist"] | None = None
    image: Annotated[str, Field(min_length=1)] | None = None
    command: Words | None = None
    args: tuple[str, ...] = ()
    backend: Literal["gloo", "nccl"] = "gloo"
    workers: Annotated[int, Field(ge=1, le=999)] = 1
    epochs: Annotated[int, Field(ge=1)] = 1
    batch_size: Annotated[int, Field(ge=1)] = 64
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    seed: Annotated[int, Field(ge=0)] = 1
    cpu: Cpu = "400m"
    memory: Memory = "768Mi"
    restart_policy: Literal["OnFailure", "Never"] = "OnFailure"
    backoff_limit: Annotated[int, Field(ge=0)] = 1
    timeout: Annotated[int, Field(ge=1)] = 3600
    start_timeout: Annotated[int, Field(ge=1)] = 300
    env: dict[Variable, Value] = Field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """How many ranks there are: the Master is rank 0, Worker i is rank i + 1."""
        return self.workers + 1


def manifest(
    job: TrainingJob, *, namespace: str, service_account: str, trainer_image: Input[str]
) -> dict[str, Any]:
    """Return the PyTorchJob that runs `job`.

    Args:
        job: What to run.
        namespace: Where.
        service_account: Of its pods; its token is not mounted.
        trainer_image: The image of a `job` that has none of its own.
    """
    template = _pod_template(job, service_account, trainer_image)
    return {
        "apiVersion": API_VERSION,
        "kind": "PyTorchJob",
        "metadata": {"name": job.name, "namespace": namespace, "labels": _labels(job)},
        "spec": {
            "runPolicy": {
                # Pods stay: their logs and exit codes are to be read after the end, too.
                "cleanPodPolicy": "None",
                "backoffLimit": job.backoff_limit,
                # `pulumi up` ends a run at its timeout; this stops one that nobody waits for.
                "activeDeadlineSeconds": job.timeout + _BACKSTOP_SECONDS,
            },
            "pytorchReplicaSpecs": {
                "Master": _replicas(job, 1, template),
                "Worker": _replicas(job, job.workers, template),
            },
        },
    }


def _labels(job: TrainingJob) -> dict[str, str]:
    return {**MANAGED_BY, JOB_LABEL: job.name}


def _replicas(job: TrainingJob, count: int, template: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": count, "restartPolicy": job.restart_policy, "template": template}


def _pod_template(
    job: TrainingJob, service_account: str, trainer_image: Input[str]
) -> dict[str, Any]:
    """Return a pod that the Pod Security Standard `restricted` admits."""
    return {
        "metadata": {
            "labels": _labels(job),
            # A mesh's sidecar would never exit, and would stand between the ranks.
            "annotations": {"sidecar.istio.io/inject": "false"},
        },
        "spec": {
            "serviceAccountName": service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # Python as process 1 ignores SIGTERM, so a stop would always take all of it.
            "terminationGracePeriodSeconds": _RANK_SECONDS_TO_STOP,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(job, trainer_image)],
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _SHARED_MEMORY}},
            ],
        },
    }


def _container(job: TrainingJob, trainer_image: Input[str]) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        "image": trainer_image if job.image is None else job.image,
        "imagePullPolicy": "IfNotPresent",
        **_program(job),
        "env": [
            {"name": name, "value": value} for name, value in sorted(_environment(job).items())
        ],
        "resources": _resources(job),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # A rank's result, or its error; without either the end of its log.
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside the container
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
        ],
    }


def _program(job: TrainingJob) -> dict[str, Any]:
    if job.module is None:
        return {"command": list(job.command or ()), "args": list(job.args)}
    options = {
        "--backend": job.backend,
        "--epochs": job.epochs,
        "--batch-size": job.batch_size,
        "--lr": job.learning_rate,
        "--momentum": job.momentum,
        "--seed": job.seed,
        "--threads": _threads(job),
    }
    return {
        "command": ["python3", "-m", f"slipway_trainer.{job.module}"],
        "args": [word for option, value in options.items() for word in (option, str(value))],
    }


def _environment(job: TrainingJob) -> dict[str, str]:
    threads = str(_threads(job))
    return {"HOME": "/tmp", "OMP_NUM_THREADS": threads, **job.env}  # noqa: S108


def _threads(job: TrainingJob) -> int:
    """Return as many threads as the replica has whole cores, at least one."""
    cores = int(job.cpu[:-1]) / 1000 if job.cpu.endswith("m") else float(job.cpu)
    return max(1, int(cores))


def _resources(job: TrainingJob) -> dict[str, Any]:
    gpu = {"nvidia.com/gpu": "1"} if job.backend == "nccl" else {}
    return {
        "requests": {"cpu": job.cpu, "memory": job.memory, **gpu},
        "limits": {"memory": job.memory, **gpu},
    }
