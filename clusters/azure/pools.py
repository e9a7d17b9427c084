"""The node pools of an AKS cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulumi_azure_native import containerservice as aks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulumi

    from clusters.azure.nodes import CpuPool, GpuNodes, SystemPool
    from clusters.azure.place import Place

CRITICAL = "CriticalAddonsOnly=true:NoSchedule"
"""Keeps every pod but the cluster's own off the system pool.

https://learn.microsoft.com/azure/aks/use-system-pools
"""
COUNT = "count"
"""How many nodes there are now: the autoscaler's business, so a difference is no change.

AKS takes it together with bounds that it is not within: https://github.com/Azure/AKS/issues/1758
"""
_FIXED = (
    "availabilityZones",
    "gpuProfile",
    "osDiskSizeGB",
    "osDiskType",
    "scaleSetEvictionPolicy",
    "scaleSetPriority",
    "spotMaxPrice",
    "vmSize",
    "vnetSubnetID",
)
"""What AKS can't change of a pool: it is made anew, and the cluster stays
(https://learn.microsoft.com/azure/aks/manage-node-pools#limitations,
https://learn.microsoft.com/azure/aks/spot-node-pool#limitations)."""


def system_profile(place: Place, subnet: pulumi.Input[str]) -> Any:
    """Return the pool that is declared inside of the cluster: one has to be there at once."""
    settings = place.settings
    return aks.ManagedClusterAgentPoolProfileArgs(
        name="system",
        mode="System",
        node_taints=[CRITICAL] if settings.cpu is not None else None,
        tags=place.tags,
        **_common(settings.system, subnet),
    )


def more(
    place: Place, cluster: aks.ManagedCluster, subnet: pulumi.Input[str]
) -> Iterator[aks.AgentPool]:
    """Declare the other pools that are asked for, and yield them."""
    settings = place.settings
    if settings.cpu is not None:
        yield _agent_pool(place, "cpu", cluster, **_common(settings.cpu, subnet))
    if settings.gpu:
        gpu = {**_common(settings.gpu, subnet), **_with_gpus(settings.gpu)}
        yield _agent_pool(place, "gpu", cluster, **gpu)


def _agent_pool(
    place: Place, name: str, cluster: aks.ManagedCluster, **properties: Any
) -> aks.AgentPool:
    return aks.AgentPool(
        f"{place.settings.name}-{name}",
        agent_pool_name=name,
        resource_group_name=place.group_name,
        resource_name_=place.settings.name,
        mode="User",
        tags=place.tags,
        **properties,
        opts=place.opts(cluster, ignore=[COUNT], replace_on=_FIXED),
    )


def _with_gpus(wanted: GpuNodes) -> dict[str, Any]:
    """Return what only nodes with GPUs have.

    AKS installs the driver, or is told not to: https://learn.microsoft.com/azure/aks/use-nvidia-gpu
    """
    spot = wanted.spot
    return {
        "gpu_profile": aks.GPUProfileArgs(driver="Install" if wanted.driver == "aks" else "None"),
        "scale_set_priority": "Regular" if spot is None else "Spot",
        "scale_set_eviction_policy": None if spot is None else spot.eviction_policy,
        "spot_max_price": None if spot is None else spot.max_price,
        "node_labels": wanted.all_labels,
        "node_taints": [f"{each.key}={each.value}:{each.effect}" for each in wanted.all_taints],
    }


def _common(pool: SystemPool | CpuPool | GpuNodes, subnet: pulumi.Input[str]) -> dict[str, Any]:
    return {
        "type": "VirtualMachineScaleSets",
        "os_type": "Linux",
        "vm_size": pool.size,
        "enable_auto_scaling": True,
        "min_count": pool.min_nodes,
        "max_count": pool.max_nodes,
        # AKS wants to be told how many there are at first.
        "count": pool.min_nodes,
        "availability_zones": list(pool.zones) or None,
        "os_disk_type": pool.os_disk.type,
        "os_disk_size_gb": pool.os_disk.gib,
        "enable_node_public_ip": False,
        "vnet_subnet_id": subnet,
    }
