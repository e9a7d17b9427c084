"""A cluster's nodes: what they have for jobs, what jobs have to know of them, what they cost by."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Literal, Self

from pydantic import dataclasses

from core.fields import CONFIG, LabelValue, NodeKey, cores, gibibytes, size
from images.build.releases import Card

DEVICE_PLUGIN = (
    "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
    "@sha256:7089559ce6153018806857f5049085bae15b3bf6f1c8bd19d8b12f707d087dea"
)
"""NVIDIA's, never pulled here: the digest is that of minikube's pkg/minikube/assets/addons.go."""


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
    gpus: int = 0
    nodes: int = 1

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes, each"
        gpus = f", {self.gpus} x nvidia.com/gpu" if self.gpus else ""
        return f"{nodes} with {float(self.cpu):g} cores, {gibibytes(self.memory)}{gpus} for jobs"

    def beside(self, requests: Collection[Mapping[str, str]]) -> Self:
        """Return what is left beside pods with these requests, of which any node may have all."""
        return replace(
            self,
            cpu=self.cpu - sum(cores(each["cpu"]) for each in requests),
            memory=self.memory - sum(size(each["memory"]) for each in requests),
        )


def of_machine(nodes: int = 1) -> Capacity:
    """Return what each node on this machine has: all cores, which they share, a part of memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Capacity(Decimal(os.cpu_count() or 1), memory // nodes, nodes=nodes)


@dataclasses.dataclass(frozen=True, config=CONFIG)
class Taint:
    """What keeps pods that do not tolerate it off the nodes.

    Args:
        key: The taint's key.
        value: The taint's value.
        effect: What becomes of pods that do not tolerate it.
    """

    key: NodeKey
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


@dataclasses.dataclass(frozen=True, config=CONFIG)
class GpuPool:
    """Nodes with GPUs, as jobs have to know them.

    Args:
        per_node: `nvidia.com/gpu` that each node offers.
        min_nodes: How many there are at least; with 0 the first job has to have one made.
        max_nodes: How many there may come to be; None where it is unknown.
        labels: That its nodes have and no others.
        taints: That its nodes have.
        interface: Of the pods' network, by name, which NCCL and Gloo have to use; None for
            what they choose.
        device_plugin: Whether Slipway has to install NVIDIA's device plugin, since nothing else
            does.
        driver: Who installs NVIDIA's driver, in words, for messages.
        fallback: Whether some of them are made only after others could not be had.
        cards: The kinds of their GPUs, as far as they are known.
    """

    per_node: int
    min_nodes: int = 1
    max_nodes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    interface: str | None = "eth0"
    device_plugin: bool = True
    driver: str = "whoever made the nodes"
    fallback: bool = False
    cards: tuple[Card, ...] = ()


@dataclasses.dataclass(frozen=True, config=CONFIG)
class NodePool:
    """Nodes that are paid for by the hour.

    Args:
        name: What the pool is called.
        provider: Who is paid, as the price table names it: `azure`.
        region: Where they are, as the provider names it.
        size: What one is, as the provider names it, such as `Standard_NC4as_T4_v3`.
        min_nodes: How many there are at least.
        max_nodes: How many there may come to be.
        gpus: Of one node.
        spot: Whether they may be taken back at any time, for a lower price.
        dollars: That one spot node may cost at most before it is taken back; None for no limit.
        cores: Of one node, that pods may request; None when it can't be known beforehand.
        takes_jobs: Whether jobs run on it, and not the cluster's own pods alone.
        network: What the network between its nodes lacks, in words; empty for nothing.
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
