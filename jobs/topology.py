"""How the processes of a PyTorchJob are counted. Pure: a job is the API server's JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MASTER = "Master"


@dataclass(frozen=True)
class Topology:
    """What a PyTorchJob consists of.

    Each replica is one pod. Replicas are numbered from 0: the Master first, where there is one,
    then the Workers. Each runs `processes` processes, and their ranks follow the replicas'.

    Args:
        replicas: How many there are.
        processes: In each replica.
        has_master: Whether replica 0 is the Master; an elastic job has Workers alone.
        elastic: Whether replicas may be lost and replaced while it trains.
    """

    replicas: int
    processes: int = 1
    has_master: bool = True
    elastic: bool = False

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> "Topology":
        """Return what `job` asks for."""
        spec = job["spec"]
        kinds = spec["pytorchReplicaSpecs"]
        return cls(
            replicas=sum(int(kind.get("replicas", 1)) for kind in kinds.values()),
            processes=_processes(spec),
            has_master=_MASTER in kinds,
            elastic="elasticPolicy" in spec,
        )

    @property
    def world_size(self) -> int:
        """How many processes there are, each of them a rank."""
        return self.replicas * self.processes

    def ranks(self, replica: int) -> str:
        """Return which ranks a replica has: "rank 1", or "ranks 2 to 3"."""
        first = replica * self.processes
        if self.processes == 1:
            return f"rank {first}"
        return f"ranks {first} to {first + self.processes - 1}"


def _processes(spec: Mapping[str, Any]) -> int:
    """Return nprocPerNode; the operator's other words for it (auto, cpu, gpu) count as one."""
    said = str(spec.get("nprocPerNode", "1"))
    return int(said) if said.isdecimal() else 1
