"""The replicas of a job: the number of each role, and what each requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from core.fields import cores, size
from jobs.spec.parts import Limits, Master

if TYPE_CHECKING:
    from jobs.spec.job import TrainingJob

Role = Literal["Master", "Worker"]
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Share:
    """One replica's share of a node."""

    cpu: str
    memory: str
    ephemeral_storage: str | None
    gpus: int
    limits: Limits

    @property
    def cores(self) -> Decimal:
        """The cores that it requests."""
        return cores(self.cpu)

    @property
    def bytes(self) -> int:
        """The memory that it requests."""
        return size(self.memory)

    @property
    def memory_limit(self) -> str:
        """The most memory that it may use."""
        return self.memory if self.limits.memory is None else self.limits.memory

    def threads(self, processes: int) -> int:
        """Return as many threads as each of its processes has full cores, at least one."""
        return max(1, int(self.cores / processes))

    def manifest(self) -> dict[str, Any]:
        """Return it as a container's resources."""
        gpus = {GPU: str(self.gpus)} if self.gpus else {}
        requests = {
            "cpu": self.cpu,
            "memory": self.memory,
            "ephemeral-storage": self.ephemeral_storage,
        }
        limits = {
            "cpu": self.limits.cpu,
            "memory": self.memory_limit,
            "ephemeral-storage": self.limits.ephemeral_storage,
        }
        return {"requests": {**_given(requests), **gpus}, "limits": {**_given(limits), **gpus}}


def share(job: TrainingJob, role: Role) -> Share:
    """Return what a replica of `job` in a role requests."""
    own = job.master if role == "Master" and job.master is not None else Master()
    default_gpus = job.processes_per_node if job.backend == "nccl" else 0
    gpus = own.gpus if own.gpus is not None else job.gpus
    return Share(
        cpu=job.cpu if own.cpu is None else own.cpu,
        memory=job.memory if own.memory is None else own.memory,
        ephemeral_storage=(
            job.ephemeral_storage if own.ephemeral_storage is None else own.ephemeral_storage
        ),
        gpus=default_gpus if gpus is None else gpus,
        limits=_limits(job, own),
    )


def roles(job: TrainingJob) -> dict[Role, int]:
    """Return the number of replicas of each role; a role that has none is left out."""
    counts: dict[Role, int] = {"Master": 0 if job.elastic is not None else 1, "Worker": job.workers}
    return {role: count for role, count in counts.items() if count > 0}


def _limits(job: TrainingJob, own: Master) -> Limits:
    if own.limits is not None:
        return own.limits
    limits = Limits() if job.limits is None else job.limits
    # A limit that was chosen for the Workers' memory means nothing to a Master with its own.
    memory = limits.memory if own.memory is None else own.memory
    return Limits(cpu=limits.cpu, memory=memory, ephemeral_storage=limits.ephemeral_storage)


def _given(amounts: dict[str, str | None]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if amount is not None}
