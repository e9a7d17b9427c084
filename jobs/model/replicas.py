"""The replicas of a job: the number of each role, and what each requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from core.fields import cores, size
from jobs.model.names import GPU
from jobs.model.parts import Limits, Master

if TYPE_CHECKING:
    from jobs.model.job import TrainingJob

Role = Literal["Master", "Worker"]
_RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)


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
        return cores(self.cpu)

    @property
    def bytes(self) -> int:
        return size(self.memory)

    @property
    def memory_limit(self) -> str:
        return self.memory if self.limits.memory is None else self.limits.memory

    def threads(self, processes: int) -> int:
        """Return as many threads as each of its processes has full cores, at least one."""
        return max(1, int(self.cores / processes))

    def manifest(self) -> dict[str, Any]:
        """Return it as a container's resources."""
        gpus = str(self.gpus) if self.gpus else None
        resources = {
            "requests": (self.cpu, self.memory, self.ephemeral_storage, gpus),
            "limits": (self.limits.cpu, self.memory_limit, self.limits.ephemeral_storage, gpus),
        }
        return {
            kind: {name: of for name, of in zip(_RESOURCES, amounts, strict=True) if of is not None}
            for kind, amounts in resources.items()
        }


def share(job: TrainingJob, role: Role) -> Share:
    """Return what a replica of `job` in a role requests."""
    own = job.master if role == "Master" and job.master is not None else Master()

    def amount(name: str) -> Any:
        of_role = getattr(own, name)
        return getattr(job, name) if of_role is None else of_role

    gpus = amount("gpus")
    if gpus is None:
        gpus = job.processes_per_node if job.backend == "nccl" else 0
    limits = amount("limits") or Limits()
    if own.limits is None and own.memory is not None:
        # A limit that was chosen for the Workers' memory means nothing to a Master with its own.
        limits = replace(limits, memory=own.memory)
    return Share(amount("cpu"), amount("memory"), amount("ephemeral_storage"), gpus, limits)


def roles(job: TrainingJob) -> dict[Role, int]:
    """Return the number of replicas of each role; a role that has none is left out."""
    counts: dict[Role, int] = {"Master": 0 if job.elastic is not None else 1, "Worker": job.workers}
    return {role: count for role, count in counts.items() if count > 0}
