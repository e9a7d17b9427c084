"""The AKS cluster itself, its node pools, and their network."""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from pulumi import CustomResource, Input, Resource
from pulumi_azure_native import containerservice as aks
from pulumi_azure_native import network

from clusters.aks.access import Network
from clusters.aks.pools import AksGpuNodes, SystemPool
from clusters.aks.settings import CONSTANTS, AksSettings, node_pools
from clusters.azure.resources import AzureCluster, within
from core.manifests import Manifest, rendered


def subnet_of(azure: AzureCluster, settings: Network) -> Input[str]:
    """Return the ID of the nodes' subnet, which is declared unless the settings name one."""
    if settings.subnet is not None:
        return settings.subnet
    name = azure.settings.name
    # No rules: Azure's defaults admit only the load balancer's probes from outside
    # (https://learn.microsoft.com/azure/virtual-network/network-security-groups-overview).
    guard = network.NetworkSecurityGroup(
        f"{name}-nodes", network_security_group_name=f"{name}-nodes", **azure.placed()
    )
    around = network.VirtualNetwork(
        name,
        virtual_network_name=f"slipway-{name}",
        address_space={"address_prefixes": [settings.addresses]},
        # The subnet is a separate resource.
        **azure.placed(ignore_changes=["subnets"]),
    )
    subnet: CustomResource = network.Subnet(
        f"{name}-nodes",
        **CONSTANTS["subnet"],
        virtual_network_name=within(f"slipway-{name}", around),
        address_prefix=settings.nodes,
        network_security_group={"id": guard.id},
        **azure.grouped(around),
    )
    return subnet.id


def managed_cluster(
    azure: AzureCluster,
    settings: AksSettings,
    subnet: Input[str],
    control: Input[str],
    *,
    after: Resource,
) -> aks.ManagedCluster:
    """Declare the cluster and its system pool.

    `control` is the ID of the cluster's identity, `after` the assignment of that identity's role.
    """
    system = {
        **CONSTANTS["system"],
        **({} if settings.cpu is None else CONSTANTS["critical"]),
        "tags": azure.tags,
        **_pool(settings.system, subnet),
    }
    groups = list(settings.admins.groups)
    idle = f"{settings.idle_minutes}m"
    falls_back = settings.gpu and settings.gpu.fallback is not None
    ranges = {"authorized_ip_ranges": list(settings.api.authorized_ranges)}
    cluster = aks.ManagedCluster(
        azure.settings.name,
        resource_name_=azure.settings.resource_name,
        node_resource_group=settings.node_group,
        dns_prefix=azure.settings.resource_name,
        kubernetes_version=settings.kubernetes_version,
        # A production cluster, which is protected from deletion, gets the tier with an uptime SLA.
        sku={"name": "Base", "tier": "Standard" if settings.production else settings.tier},
        identity={"type": "UserAssigned", "user_assigned_identities": [control]},
        **CONSTANTS["cluster"],
        disable_local_accounts=not settings.admin_kubeconfig,
        aad_profile=CONSTANTS["entra"] | ({"admin_group_object_ids": groups} if groups else {}),
        # AKS adds the nodes' addresses itself:
        # https://learn.microsoft.com/azure/aks/api-server-authorized-ip-ranges
        api_server_access_profile={
            **CONSTANTS["api"],
            **(CONSTANTS["private_api"] if settings.api.private else ranges),
        },
        network_profile={
            **CONSTANTS["network"],
            "pod_cidr": settings.network.pods,
            "service_cidr": settings.network.services,
            # Any address in the range except the first, which is the API server's Service.
            "dns_service_ip": str(IPv4Network(settings.network.services)[10]),
        },
        # Remove unused nodes soon, even if a pod has files on one.
        auto_scaler_profile={
            "scale_down_unneeded_time": idle,
            "scale_down_delay_after_add": idle,
            "skip_nodes_with_local_storage": "false",
            # For `priorities`. AKS's default is `random`; whether AKS reverts to it
            # when this is later omitted is untested.
            **({"expander": "priority"} if falls_back else {}),
        },
        # AKS requires one.
        agent_pool_profiles=[system],
        # After a refresh, the list contains all pools in any order, but an update sends only this.
        **azure.placed(after, ignore_changes=["agentPoolProfiles"]),
    )
    aks.MaintenanceConfiguration(
        f"{azure.settings.name}-node-images",
        config_name="aksManagedNodeOSUpgradeSchedule",
        resource_name_=within(azure.settings.resource_name, cluster),
        maintenance_window=CONSTANTS["maintenance"],
        **azure.grouped(cluster),
    )
    return cluster


def agent_pools(
    azure: AzureCluster, settings: AksSettings, cluster: aks.ManagedCluster, subnet: Input[str]
) -> Iterator[Resource]:
    """Declare all pools except the system pool as separate resources, and yield them."""
    for name, pool in node_pools(settings).items():
        if name == "system":
            continue
        yield aks.AgentPool(
            f"{azure.settings.name}-{name}",
            agent_pool_name=name,
            resource_name_=within(azure.settings.resource_name, cluster),
            mode="User",
            tags=azure.tags,
            **_pool(pool, subnet),
            # The autoscaler changes `count`. AKS accepts a number outside the bounds:
            # https://github.com/Azure/AKS/issues/1758
            **azure.grouped(cluster, fixed=CONSTANTS["fixed"], ignore_changes=["count"]),
        )


def priorities(names: Collection[str]) -> tuple[Manifest, ...]:
    """Return the ConfigMap that makes the autoscaler prefer the first of several pools.

    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md
    """
    if len(names) < 2:
        return ()
    first, *_ = names
    return tuple(rendered(Path(__file__).with_name("priorities.yaml"), first=first))


def _pool(pool: SystemPool | AksGpuNodes, subnet: Input[str]) -> dict[str, Any]:
    properties = {
        **CONSTANTS["pool"],
        "vm_size": pool.size,
        "min_count": pool.min_nodes,
        "max_count": pool.max_nodes,
        # AKS requires an initial number.
        "count": pool.min_nodes,
        **({"availability_zones": list(pool.zones)} if pool.zones else {}),
        "os_disk_type": pool.os_disk.type,
        "os_disk_size_gb": pool.os_disk.gib,
        "vnet_subnet_id": subnet,
    }
    if not isinstance(pool, AksGpuNodes):
        return properties
    spot = pool.spot
    return properties | {
        # https://learn.microsoft.com/azure/aks/use-nvidia-gpu
        "gpu_profile": {"driver": "Install" if pool.driver == "aks" else "None"},
        "scale_set_priority": "Regular" if spot is None else "Spot",
        "scale_set_eviction_policy": None if spot is None else spot.eviction_policy,
        "spot_max_price": None if spot is None else spot.max_price,
        "node_labels": pool.all_labels,
        "node_taints": [*map(str, pool.all_taints)],
    }
