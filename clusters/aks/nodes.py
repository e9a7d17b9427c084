"""The AKS cluster itself and its node pools."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_azure_native import containerservice as aks

if TYPE_CHECKING:
    from clusters.aks.identity import Identities
    from clusters.aks.pools import AksGpuNodes, SystemPool
    from clusters.aks.settings import Api, Network, Settings
    from clusters.azure.resources import AzureCluster

_CRITICAL = "CriticalAddonsOnly=true:NoSchedule"
"""Keeps every pod but the cluster's own off the system pool.

https://learn.microsoft.com/azure/aks/use-system-pools
"""
_COUNT = "count"
"""The current number of nodes: the autoscaler changes it, so a difference is no change.

AKS accepts it with bounds that it is not within: https://github.com/Azure/AKS/issues/1758
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
"""What AKS can't change of a pool: the pool is replaced, and the cluster stays
(https://learn.microsoft.com/azure/aks/manage-node-pools#limitations,
https://learn.microsoft.com/azure/aks/spot-node-pool#limitations)."""


def managed_cluster(
    azure: AzureCluster,
    settings: Settings,
    subnet: pulumi.Input[str],
    who: Identities,
) -> aks.ManagedCluster:
    """Declare the cluster with its system pool, once the roles of its identity are assigned."""
    # What is protected from deletion is worth a promise of uptime.
    tier = "Standard" if settings.production else settings.tier
    # A cluster needs one pool at creation, so it is declared inside of the cluster.
    system = aks.ManagedClusterAgentPoolProfileArgs(
        name="system",
        mode="System",
        node_taints=[_CRITICAL] if settings.cpu is not None else None,
        tags=azure.tags,
        **_pool(settings.system, subnet),
    )
    idle = f"{settings.idle_minutes}m"
    return aks.ManagedCluster(
        azure.cluster_name,
        resource_name_=azure.resource_name,
        **azure.placed,
        node_resource_group=settings.node_group,
        dns_prefix=azure.resource_name,
        kubernetes_version=settings.kubernetes_version,
        sku=aks.ManagedClusterSKUArgs(name="Base", tier=tier),
        identity=aks.ManagedClusterIdentityArgs(
            type="UserAssigned", user_assigned_identities=[who.control.id]
        ),
        enable_rbac=True,
        disable_local_accounts=not settings.admin_kubeconfig,
        aad_profile=aks.ManagedClusterAADProfileArgs(
            managed=True,
            enable_azure_rbac=True,
            admin_group_object_ids=list(settings.admins.groups) or None,
        ),
        api_server_access_profile=_api_server(settings.api),
        oidc_issuer_profile=aks.ManagedClusterOIDCIssuerProfileArgs(enabled=True),
        security_profile=aks.ManagedClusterSecurityProfileArgs(
            workload_identity=aks.ManagedClusterSecurityProfileWorkloadIdentityArgs(enabled=True)
        ),
        network_profile=_network(settings.network),
        # Nodes that no pod needs are removed soon; a pod's files keep no node.
        auto_scaler_profile=aks.ManagedClusterPropertiesAutoScalerProfileArgs(
            scale_down_unneeded_time=idle,
            scale_down_delay_after_add=idle,
            skip_nodes_with_local_storage="false",
        ),
        # Nodes get new images in the hours of `maintenance` alone; Kubernetes stays as it is.
        auto_upgrade_profile=aks.ManagedClusterAutoUpgradeProfileArgs(
            node_os_upgrade_channel="NodeImage", upgrade_channel="none"
        ),
        agent_pool_profiles=[system],
        # After a refresh it lists all pools, in any order: an update would send one of them alone.
        opts=azure.opts(who.granted, ignore=["agentPoolProfiles"]),
    )


def maintenance(azure: AzureCluster, cluster: aks.ManagedCluster) -> None:
    """Declare when nodes may be replaced by ones with a new image: it drains them, and ends ranks.

    Without hours AKS does it at any time, since its default channel is NodeImage
    (https://learn.microsoft.com/azure/aks/auto-upgrade-node-os-image,
    https://learn.microsoft.com/azure/aks/planned-maintenance).
    """
    aks.MaintenanceConfiguration(
        f"{azure.cluster_name}-node-images",
        config_name="aksManagedNodeOSUpgradeSchedule",
        resource_group_name=azure.group_name,
        resource_name_=azure.resource_name,
        maintenance_window=aks.MaintenanceWindowArgs(
            duration_hours=4,
            start_time="02:00",
            utc_offset="+00:00",
            schedule=aks.ScheduleArgs(
                weekly=aks.WeeklyScheduleArgs(day_of_week="Sunday", interval_weeks=1)
            ),
        ),
        opts=azure.opts(cluster),
    )


def agent_pools(
    azure: AzureCluster,
    cluster: aks.ManagedCluster,
    subnet: pulumi.Input[str],
    cpu: SystemPool | None,
    gpu: AksGpuNodes | None,
) -> Iterator[pulumi.Resource]:
    """Declare the pools besides the system's, each a resource of its own, and yield them."""
    pools: dict[str, dict[str, Any]] = {}
    if cpu is not None:
        pools["cpu"] = _pool(cpu, subnet)
    if gpu is not None:
        pools["gpu"] = {**_pool(gpu, subnet), **_with_gpus(gpu)}
    for name, properties in pools.items():
        yield aks.AgentPool(
            f"{azure.cluster_name}-{name}",
            agent_pool_name=name,
            resource_group_name=azure.group_name,
            resource_name_=azure.resource_name,
            mode="User",
            tags=azure.tags,
            **properties,
            opts=azure.opts(cluster, ignore=[_COUNT], replace_on=_FIXED),
        )


def _pool(pool: SystemPool | AksGpuNodes, subnet: pulumi.Input[str]) -> dict[str, Any]:
    """Return the properties that every pool has."""
    return {
        "type": "VirtualMachineScaleSets",
        "os_type": "Linux",
        "vm_size": pool.size,
        "enable_auto_scaling": True,
        "min_count": pool.min_nodes,
        "max_count": pool.max_nodes,
        # AKS requires an initial number.
        "count": pool.min_nodes,
        "availability_zones": list(pool.zones) or None,
        "os_disk_type": pool.os_disk.type,
        "os_disk_size_gb": pool.os_disk.gib,
        "enable_node_public_ip": False,
        "vnet_subnet_id": subnet,
    }


def _with_gpus(gpu: AksGpuNodes) -> dict[str, Any]:
    """Return the properties that only a pool with GPUs has.

    AKS installs the driver, or does not: https://learn.microsoft.com/azure/aks/use-nvidia-gpu
    """
    spot = gpu.spot
    return {
        "gpu_profile": aks.GPUProfileArgs(driver="Install" if gpu.driver == "aks" else "None"),
        "scale_set_priority": "Regular" if spot is None else "Spot",
        "scale_set_eviction_policy": None if spot is None else spot.eviction_policy,
        "spot_max_price": None if spot is None else spot.max_price,
        "node_labels": gpu.all_labels,
        "node_taints": [*map(str, gpu.all_taints)],
    }


def _api_server(api: Api) -> Any:
    """Return who reaches the API server.

    The cluster's own way out is let in by AKS itself:
    https://learn.microsoft.com/azure/aks/api-server-authorized-ip-ranges
    """
    private = {
        "enable_private_cluster": True,
        "enable_private_cluster_public_fqdn": False,
        "private_dns_zone": "system",
    }
    public = {"authorized_ip_ranges": list(api.authorized_ranges)}
    return aks.ManagedClusterAPIServerAccessProfileArgs(
        **(private if api.private else public),
        # Azure's way to run commands in a cluster would go round the ranges.
        disable_run_command=True,
    )


def _network(network: Network) -> Any:
    """Return a network in which NetworkPolicies hold.

    https://learn.microsoft.com/azure/aks/azure-cni-powered-by-cilium
    """
    return aks.ContainerServiceNetworkProfileArgs(
        network_plugin="azure",
        network_plugin_mode="overlay",
        network_dataplane="cilium",
        network_policy="cilium",
        load_balancer_sku="standard",
        outbound_type="loadBalancer",
        pod_cidr=network.pods,
        service_cidr=network.services,
        # Any address of the range but the first, which is the API server's Service.
        dns_service_ip=str(IPv4Network(network.services)[10]),
    )
