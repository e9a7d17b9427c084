"""The replicas, processes and ranks of a PyTorchJob. Pure: a job is the API server's JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Topology:
    """The replicas and processes of a PyTorchJob.

    Each replica is one pod. Replicas are numbered from 0: the Master first, if the job has one,
    then the Workers. Each runs `processes` processes, and their ranks follow the replicas'. Of an
    elastic job, which has Workers alone, replicas may be lost and replaced while it trains.
    """

    replicas: int
    processes: int = 1
    has_master: bool = True
    elastic: bool = False

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> "Topology":
        """Return the topology of a PyTorchJob."""
        spec = job["spec"]
        kinds = spec["pytorchReplicaSpecs"]
        return cls(
            replicas=sum(int(kind.get("replicas", 1)) for kind in kinds.values()),
            processes=int(spec.get("nprocPerNode", 1)),
            has_master="Master" in kinds,
            elastic="elasticPolicy" in spec,
        )

    @property
    def world_size(self) -> int:
        """The number of processes, each of them a rank."""
        return self.replicas * self.processes

    def first_rank(self, replica: int) -> int:
        """Return the lowest rank of a replica."""
        return replica * self.processes

    def span(self, replica: int) -> str:
        """Return the numbers of a replica's ranks: "1", or "2-3"."""
        first, last = self._ends(replica)
        return f"{first}" if first == last else f"{first}-{last}"

    def ranks(self, replica: int) -> str:
        """Return which ranks a replica has: "rank 1", or "ranks 2 to 3"."""
        first, last = self._ends(replica)
        return f"rank {first}" if first == last else f"ranks {first} to {last}"

    def _ends(self, replica: int) -> tuple[int, int]:
        first = self.first_rank(replica)
        return first, first + self.processes - 1
