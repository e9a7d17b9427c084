"""The kind `aks`: Azure Kubernetes Service with a pool of nodes with GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusters.azure import remains as search
from clusters.azure.cores import for_pods
from clusters.azure.settings import Settings
from clusters.pools import GpuPool, NodePool, Taint

if TYPE_CHECKING:
    from clusters.azure.nodes import CpuPool, GpuNodes, SystemPool
    from clusters.cluster import Cluster, Remains

__all__ = ["Settings", "gpus", "pools", "provision", "remains"]


def gpus(settings: Settings) -> GpuPool | None:
    """Return the pool with GPUs as jobs have to know it."""
    wanted = settings.gpu or None
    if wanted is None:
        return None
    return GpuPool(
        per_node=wanted.per_node,
        min_nodes=wanted.min_nodes,
        max_nodes=wanted.max_nodes,
        labels=wanted.all_labels,
        taints=tuple(Taint(each.key, each.value, each.effect) for each in wanted.all_taints),
        interface="eth0",
        # The GPU operator brings its own; two would fight over the same GPUs.
        device_plugin=wanted.driver == "aks",
        driver="AKS" if wanted.driver == "aks" else "NVIDIA's GPU operator",
    )


def pools(settings: Settings) -> tuple[NodePool, ...]:
    """Return every pool: each node is paid for by the hour."""
    found = [_pool("system", settings.system, settings)]
    if settings.cpu is not None:
        found.append(_pool("cpu", settings.cpu, settings))
    if wanted := settings.gpu or None:
        pool = replace(_pool("gpu", wanted, settings), gpus=wanted.per_node)
        if wanted.spot is not None:
            pool = replace(pool, spot=True, dollars=wanted.spot.limit)
        found.append(pool)
    return tuple(found)


def provision(settings: Settings) -> Cluster:
    """Declare everything on Azure, and return the cluster."""
    # Only now is what it needs loaded.
    from clusters.azure.whole import provision as declare  # noqa: PLC0415

    return declare(settings, gpus(settings))


def remains(settings: Settings, stack: str) -> Remains:  # noqa: ARG001 (every kind's shape)
    """Return the resource groups that are still there, as far as Azure can be asked."""
    return search.remains(settings)


def _pool(name: str, pool: SystemPool | CpuPool | GpuNodes, settings: Settings) -> NodePool:
    return NodePool(
        name=name,
        provider="azure",
        region=settings.location,
        size=pool.size,
        min_nodes=pool.min_nodes,
        max_nodes=pool.max_nodes,
        cores=for_pods(pool.size),
        # Beside a pool for jobs it takes the cluster's own pods alone.
        takes_jobs=name != "system" or settings.cpu is None,
    )
