"""How much of a cluster jobs ask for, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from clusters.capacity import Capacity
from core import quantities
from jobs.placement import fits, shares
from jobs.spec import TrainingJob
from jobs.spec.resources import GPU, Share


@dataclass(frozen=True)
class Needs:
    """What pods ask for, all together.

    Args:
        pods: How many there are.
        cores: In all.
        memory: Bytes, in all.
        gpus: `nvidia.com/gpu`, in all.
    """

    pods: int
    cores: Decimal
    memory: int
    gpus: int

    @classmethod
    def of(cls, wanted: Iterable[Share]) -> Needs:
        """Return what replicas with these shares need."""
        each = list(wanted)
        return cls(
            len(each),
            sum((one.cores for one in each), Decimal(0)),
            sum(one.bytes for one in each),
            sum(one.gpus for one in each),
        )

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> Needs:
        """Return what a PyTorchJob's pods need; init containers end before the others begin."""
        total = cls(0, Decimal(0), 0, 0)
        for replicas in manifest["spec"]["pytorchReplicaSpecs"].values():
            for container in replicas["template"]["spec"]["containers"]:
                asked = container["resources"]["requests"]
                count = replicas["replicas"]
                total += cls(
                    count,
                    count * quantities.cores(asked["cpu"]),
                    count * quantities.size(asked["memory"]),
                    count * int(asked.get(GPU, 0)),
                )
        return total

    def __add__(self, other: Needs) -> Needs:
        return Needs(
            self.pods + other.pods,
            self.cores + other.cores,
            self.memory + other.memory,
            self.gpus + other.gpus,
        )

    def __str__(self) -> str:
        pods = "1 pod with" if self.pods == 1 else f"{self.pods} pods, in all"
        gpus = f", {self.gpus} x {GPU}" if self.gpus else ""
        cores = "1 core" if self.cores == 1 else f"{float(self.cores):g} cores"
        return f"{pods} {cores}, {_memory(self.memory)}{gpus}"


def together(jobs: Sequence[TrainingJob], capacity: Capacity | None) -> str:
    """Return what a stack's jobs need against what its cluster has, as far as that is known."""
    asked = [share for job in jobs for share in shares(job)]
    said = []
    if len(jobs) > 1:
        said.append(f"all {len(jobs)} jobs of the stack together need {Needs.of(asked)}")
    if capacity is not None:
        turns = "" if fits(asked, capacity) else ", so that they take turns"
        said.append(f"the cluster has {capacity}{turns}")
    return "; ".join(said)


def _memory(amount: int) -> str:
    """Return an amount of bytes as a person reads it."""
    gibibytes = amount / 2**30
    return f"{gibibytes:.4g} GiB" if gibibytes >= 1 else f"{amount / 2**20:.4g} MiB"
