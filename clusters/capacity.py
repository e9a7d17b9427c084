"""What a cluster has for jobs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from core.fields import cores, gibibytes, size


@dataclass(frozen=True)
class Capacity:
    """What jobs may request at the same time: what is reserved or requested by others is taken off.

    Args:
        cpu: Cores of one node.
        memory: Bytes of one node.
        gpus: `nvidia.com/gpu` of one node.
        nodes: The number of such nodes, or the most that may be made.
    """

    cpu: Decimal
    memory: int
    gpus: int
    nodes: int

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes, each"
        gpus = f", {self.gpus} x nvidia.com/gpu" if self.gpus else ""
        return f"{nodes} with {float(self.cpu):g} cores, {gibibytes(self.memory)}{gpus} for jobs"

    def beside(self, requests: Collection[Mapping[str, str]]) -> Capacity:
        """Return what is left beside pods with these requests, of which any node may have all."""
        return replace(
            self,
            cpu=self.cpu - sum(cores(each["cpu"]) for each in requests),
            memory=self.memory - sum(size(each["memory"]) for each in requests),
        )


def left(
    node_cores: int, node_memory: int, requests: Collection[Mapping[str, str]], *, nodes: int = 1
) -> Capacity:
    """Return what nodes without GPUs have for jobs beside what others on each of them request."""
    return Capacity(Decimal(node_cores), node_memory, gpus=0, nodes=nodes).beside(requests)


def machine_cores() -> int:
    """Return how many cores this machine has."""
    return os.cpu_count() or 1


def machine_memory() -> int:
    """Return how many bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
