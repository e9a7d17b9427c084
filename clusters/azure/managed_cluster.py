"""The AKS cluster itself."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

from pulumi_azure_native import containerservice as aks

from clusters.azure import names
from clusters.azure.pools import COUNT, system_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi

    from clusters.azure.identity import Identities
    from clusters.azure.place import Place
    from clusters.azure.settings import Network


def managed_cluster(
    place: Place,
    subnet: pulumi.Input[str],
    who: Identities,
    depends_on: Sequence[pulumi.Resource],
) -> aks.ManagedCluster:
    """Declare the cluster with its system pool.

    Args:
        place: Where the stack is.
        subnet: Of its nodes.
        who: Its identities.
        depends_on: What has to be there before.
    """
    settings = place.settings
    return aks.ManagedCluster(
        settings.name,
        resource_name_=settings.name,
        resource_group_name=place.group_name,
        node_resource_group=names.node_group(settings),
        location=settings.location,
        dns_prefix=settings.name,
        kubernetes_version=settings.kubernetes_version,
        sku=aks.ManagedClusterSKUArgs(name="Base", tier=_tier(place)),
        identity=aks.ManagedClusterIdentityArgs(
            type="UserAssigned", user_assigned_identities=[who.control.id]
        ),
        identity_profile={
            "kubeletidentity": aks.UserAssignedIdentityArgs(
                resource_id=who.kubelet.id,
                client_id=who.kubelet.client_id,
                object_id=who.kubelet.principal_id,
            )
        },
        enable_rbac=True,
        disable_local_accounts=not settings.admin_kubeconfig,
        aad_profile=aks.ManagedClusterAADProfileArgs(
            managed=True,
            enable_azure_rbac=True,
            admin_group_object_ids=list(settings.admins.groups) or None,
        ),
        api_server_access_profile=_api(place),
        oidc_issuer_profile=aks.ManagedClusterOIDCIssuerProfileArgs(enabled=True),
        security_profile=aks.ManagedClusterSecurityProfileArgs(
            workload_identity=aks.ManagedClusterSecurityProfileWorkloadIdentityArgs(enabled=True)
        ),
        network_profile=_network(settings.network),
        auto_scaler_profile=_autoscaler(settings.idle_minutes),
        agent_pool_profiles=[system_profile(place, subnet)],
        tags=place.tags,
        opts=place.opts(*depends_on, ignore=[f"agentPoolProfiles[0].{COUNT}"]),
    )


def _tier(place: Place) -> str:
    """Return the tier: what is protected from deletion is worth a promise of uptime."""
    return "Standard" if place.settings.production else place.settings.tier


def _api(place: Place) -> Any:
    """Return who reaches the API server.

    The cluster's own way out is let in by AKS itself:
    https://learn.microsoft.com/azure/aks/api-server-authorized-ip-ranges
    """
    api = place.settings.api
    if api.private:
        return aks.ManagedClusterAPIServerAccessProfileArgs(
            enable_private_cluster=True,
            enable_private_cluster_public_fqdn=False,
            private_dns_zone="system",
            disable_run_command=True,
        )
    return aks.ManagedClusterAPIServerAccessProfileArgs(
        authorized_ip_ranges=list(api.authorized_ranges),
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


def _autoscaler(idle_minutes: int) -> Any:
    """Return that nodes which no pod needs are given back soon, and a spot node is waited for."""
    return aks.ManagedClusterPropertiesAutoScalerProfileArgs(
        scale_down_unneeded_time=f"{idle_minutes}m",
        scale_down_delay_after_add=f"{idle_minutes}m",
        skip_nodes_with_local_storage="false",
    )
