"""The kind `azure-stack`: AKS on Azure Local, on a company's own machines."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from clusters.azure.cores import cores
from clusters.azure_local import left
from clusters.azure_local.settings import Settings
from clusters.azure_local.sizes import CORES
from clusters.pools import GpuPool, NodePool, Taint

if TYPE_CHECKING:
    from clusters.cluster import Cluster, Remains

__all__ = ["Settings", "gpus", "pools", "provision", "remains"]


def gpus(settings: Settings) -> GpuPool | None:
    """Return the pool with GPUs as jobs have to know it."""
    wanted = settings.gpu
    if wanted is None:
        return None
    return GpuPool(
        per_node=wanted.per_node,
        min_nodes=wanted.min_nodes,
        max_nodes=wanted.max_nodes,
        labels=wanted.all_labels,
        taints=tuple(Taint(each.key, each.value, each.effect) for each in wanted.taints),
        interface="eth0",
        # A node comes with the driver, and offers its GPUs without anything being installed:
        # https://learn.microsoft.com/azure/aks/aksarc/deploy-gpu-node-pool
        device_plugin=False,
        driver="AKS on Azure Local",
    )


def pools(settings: Settings) -> tuple[NodePool, ...]:
    """Return every pool, of machines of one's own: there is a price only in one's own table."""
    system = settings.system
    found = [_pool("system", settings, system.size, system.nodes, system.nodes)]
    if (gpu := settings.gpu) is not None:
        found.append(_pool("gpu", settings, gpu.size, gpu.min_nodes, gpu.max_nodes, gpu.per_node))
    return tuple(found)


def provision(settings: Settings) -> Cluster:
    """Declare everything, and return the cluster."""
    # Only now is what it needs loaded.
    from clusters.azure_local.whole import provision as declare  # noqa: PLC0415

    return declare(settings, gpus(settings))


def remains(settings: Settings, stack: str) -> Remains:  # noqa: ARG001 (every kind's shape)
    """Look for the resource group, or for what in it bears the cluster's name."""
    return left.remains(settings)


def _pool(  # noqa: PLR0913, PLR0917  # a pool's facts, in their order
    name: str, settings: Settings, size: str, least: int, most: int, gpus: int = 0
) -> NodePool:
    there = CORES.get(size, cores(size))
    return NodePool(
        name=name,
        provider="azure-local",
        region=settings.location,
        size=size,
        min_nodes=least,
        max_nodes=most,
        gpus=gpus,
        cores=None if there is None else Decimal(there),
    )
