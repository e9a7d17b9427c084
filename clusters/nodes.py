"""A cluster's nodes: capacity for jobs, GPU pools, and pools with hourly costs."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, Self

from pydantic import TypeAdapter, dataclasses

from core.fields import CONFIG, LabelValue, NodeKey, cores, gibibytes, size
from images.build.releases import Card

DEVICE_PLUGIN = (
    "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    "@sha256:7089559ce6153018806857f5049085bae15b3bf6f1c8bd19d8b12f707d087dea"
)
"""NVIDIA's device plugin, not tested by Slipway; the digest is from minikube's assets/addons.go."""


@dataclass(frozen=True)
class Capacity:
    """The capacity that jobs can request, excluding what is reserved or used by other pods.

    Args:
        cpu: Cores per node.
        memory: Bytes of memory per node.
        gpus: Number of `nvidia.com/gpu` resources per node.
        nodes: Number of these nodes, or the maximum number if they are autoscaled.
    """

    cpu: Decimal
    memory: int
    gpus: int = 0
    nodes: int = 1

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes, each"
        gpus = f", {self.gpus} x nvidia.com/gpu" if self.gpus else ""
        return f"{nodes} with {float(self.cpu):g} cores, {gibibytes(self.memory)}{gpus} for jobs"

    def beside(self, requests: Collection[Mapping[str, str]]) -> Self:
        """Return what is left of the capacity if all pods with these requests share one node."""
        return replace(
            self,
            cpu=self.cpu - sum(cores(each["cpu"]) for each in requests),
            memory=self.memory - sum(size(each["memory"]) for each in requests),
        )


def of_machine(nodes: int = 1) -> Capacity:
    """Return the capacity of each of `nodes` nodes on this machine.

    Nodes share all of the machine's cores; each gets an equal part of its memory.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Capacity(Decimal(os.cpu_count() or 1), memory // nodes, nodes=nodes)


@dataclasses.dataclass(frozen=True, config=CONFIG)
class Taint:
    """A node taint, which repels pods that do not tolerate it.

    Args:
        key: The taint's key.
        value: The taint's value.
        effect: The effect on pods that do not tolerate it.
    """

    key: NodeKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


@dataclasses.dataclass(frozen=True, config=CONFIG)
class GpuPool:
    """GPU nodes, with the properties that jobs depend on.

    Args:
        per_node: Number of `nvidia.com/gpu` resources on each node.
        min_nodes: Minimum number of nodes; if 0, nodes are created when a job needs them.
        max_nodes: Maximum number of nodes, or None if unknown.
        labels: Labels that only these nodes have.
        taints: Taints on these nodes.
        interface: The pods' network interface that NCCL and Gloo must use, or None to let them
            choose.
        device_plugin: True if Slipway must install NVIDIA's device plugin, because nothing else
            does.
        driver: The party that installs NVIDIA's driver, for messages.
        fallback: True if some of the nodes are created only when others are not available.
        cards: The GPU models, as far as they are known.
    """

    per_node: int
    min_nodes: int = 1
    max_nodes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    interface: str | None = "eth0"
    device_plugin: bool = True
    driver: str = "whoever set up the nodes"
    fallback: bool = False
    cards: tuple[Card, ...] = ()

    def as_input(self) -> dict[str, Any]:
        """Return the pool as a resource's input, without empty values and what only jobs need."""
        of_jobs = {"interface", "fallback", "cards"}
        values = _GPU_POOL.dump_python(self, mode="json", by_alias=True, exclude=of_jobs)
        return {key: value for key, value in values.items() if value not in (None, {}, [])}

    @staticmethod
    def from_input(values: Mapping[str, Any]) -> "GpuPool":
        """Return the pool that a resource's input describes; the inverse of `as_input`."""
        return _GPU_POOL.validate_python(values, strict=False)


_GPU_POOL = TypeAdapter(GpuPool)


@dataclasses.dataclass(frozen=True, config=CONFIG)
class NodePool:
    """A pool of nodes whose hourly cost is estimated.

    Args:
        name: The pool's name.
        provider: The provider's name in the price table, such as `azure`.
        region: The provider's name for the region.
        size: The provider's name for the size, such as `Standard_NC4as_T4_v3`.
        min_nodes: Minimum number of nodes.
        max_nodes: Maximum number of nodes.
        gpus: GPUs per node.
        spot: True for spot nodes, which cost less and may be evicted at any time.
        dollars: The hourly price in US dollars above which a spot node is evicted; None: no limit.
        cores: Cores per node that pods can request, or None if not known in advance.
        takes_jobs: True if jobs run in this pool; False if only the cluster's own pods do.
        network: A description of the network between the nodes, for estimates; may be empty.
    """

    name: str
    provider: str
    region: str
    size: str
    min_nodes: int
    max_nodes: int
    gpus: int = 0
    spot: bool = False
    dollars: Decimal | None = None
    cores: Decimal | None = None
    takes_jobs: bool = True
    network: str = ""
