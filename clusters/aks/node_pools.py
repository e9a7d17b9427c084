"""The node pools that an AKS cluster's settings define, and the pools' properties for jobs."""

from collections.abc import Collection
from dataclasses import replace

import yaml

from clusters.aks.pools import AksGpuNodes, SystemPool
from clusters.aks.settings import AksSettings
from clusters.azure.facts import cards, cores_for_pods, network
from clusters.cloud_reports import NAMESPACE
from clusters.nodes import GpuPool, NodePool
from core.manifests import Manifest, owned

GPU, GPU_FALLBACK = "gpu", "gpufallback"
"""Names of the GPU pools; AKS accepts at most 12 characters from a-z and 0-9
(https://learn.microsoft.com/azure/aks/create-node-pools#limitations)."""


def node_pools(settings: AksSettings) -> dict[str, SystemPool | AksGpuNodes]:
    """Return all node pools, keyed by name."""
    cpu = {} if settings.cpu is None else {"cpu": settings.cpu}
    return {"system": settings.system, **cpu, **gpu_pools(settings)}


def gpu_pools(settings: AksSettings) -> dict[str, AksGpuNodes]:
    """Return the GPU pools, keyed by name, the preferred pool first."""
    if not settings.gpu:
        return {}
    fallback = settings.gpu.fallback
    return {GPU: settings.gpu, **({} if fallback is None else {GPU_FALLBACK: fallback})}


def gpus(settings: AksSettings) -> GpuPool | None:
    """Return the GPU nodes and their properties for jobs, or None if there are none."""
    pools = [*gpu_pools(settings).values()]
    if not settings.gpu:
        return None
    # The GPU operator installs a device plugin; two of them would conflict.
    by_aks = settings.gpu.driver == "aks"
    driver = "AKS" if by_aks else "NVIDIA's GPU operator"
    kinds = (card for each in pools for card in cards(each.size))
    return replace(
        settings.gpu.pool(driver=driver, device_plugin=by_aks),
        min_nodes=sum(each.min_nodes for each in pools),
        max_nodes=sum(each.max_nodes for each in pools),
        # The labels that all nodes have in common: spot nodes have an additional label and taint.
        labels=pools[-1].all_labels,
        fallback=len(pools) > 1,
        # The CUDA version of a driver that the user installs is unknown.
        cards=tuple(card if by_aks else replace(card, cuda=None) for card in kinds),
    )


def pools(settings: AksSettings) -> tuple[NodePool, ...]:
    """Return all pools, for cost estimates and scheduling; their nodes are billed by the hour."""
    return tuple(
        NodePool(
            name=name,
            provider="azure",
            region=settings.location,
            size=pool.size,
            min_nodes=pool.min_nodes,
            max_nodes=pool.max_nodes,
            gpus=pool.per_node,
            spot=pool.spot is not None,
            dollars=None if pool.spot is None else pool.spot.dollars,
            cores=cores_for_pods(pool.size),
            network=network(pool.size) if pool.max_nodes > 1 else "",
            # With a pool `cpu`, the pool `system` only runs the cluster's own pods.
            takes_jobs=name != "system" or settings.cpu is None,
        )
        for name, pool in node_pools(settings).items()
    )


def priorities(names: Collection[str]) -> tuple[Manifest, ...]:
    """Return the ConfigMap that makes the autoscaler prefer the first of several pools.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md
    """
    if len(names) < 2:
        return ()
    first, *_ = names
    # A pool's scale set is aks-<pool>-<8 digits>-vmss; one that matches no pattern can't grow.
    patterns = {20: [f"^aks-{first}-"], 10: [".*"]}
    name = "cluster-autoscaler-priority-expander"
    data = {"priorities": yaml.safe_dump(patterns, sort_keys=False)}
    return ({**owned("ConfigMap", name, NAMESPACE), "data": data},)
