"""Declares a cluster on Azure Local with all that belongs to it, in the running Pulumi program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_kubernetes
from pulumi_azure_native import azurestackhci
from pulumi_azure_native import hybridcontainerservice as hybrid

from clusters.azure import checks
from clusters.azure.resources import AzureCluster, kubeconfig
from clusters.azure_local import arc
from clusters.azure_local.settings import gpus
from clusters.cluster import Cluster
from images.resource import helper_images

if TYPE_CHECKING:
    from clusters.azure.kubeconfig import Login
    from clusters.azure_local.settings import LogicalNetwork, Settings

_FIXED_OF_NETWORK = ("extendedLocation", "location", "subnets", "vmSwitchName", "dhcpOptions")
"""What can't be changed of a logical network.

https://learn.microsoft.com/azure/azure-local/manage/create-logical-networks
"""


def provision(settings: Settings) -> Cluster:
    """Declare everything on Azure Local, and return the cluster."""
    checks.before_update(settings)
    away = settings.disconnected
    azure = AzureCluster(
        "slipway:clusters:AzureLocal",
        settings,
        own_group=settings.resource_group is None,
        metadata_host=None if away is None else away.control_plane,
        timeout="30m",
    )
    network = _network(azure, settings.logical_network, settings.custom_location)
    connected = arc.connected_cluster(azure, settings.entra)
    made = [arc.instance(azure, settings, connected, network)]
    if settings.gpu is not None:
        made.append(arc.gpu_pool(azure, settings.gpu, connected, settings.custom_location, made[0]))
    if settings.production:
        azure.lock(connected.id)

    target = settings.images.target(settings.registry.target())
    helpers, images = helper_images(target)
    login = None if settings.admin_kubeconfig else settings.login
    text = _kubeconfig(azure, connected.id, made[0], login)
    provider = pulumi_kubernetes.Provider(
        settings.name,
        kubeconfig=text,
        # The kubeconfig may change, and this is still the same cluster.
        cluster_identifier=f"{settings.group_id}/{settings.name}",
        opts=pulumi.ResourceOptions(depends_on=[*made, *images]),
    )
    return Cluster(
        kind="azure-stack",
        provider=provider,
        kubeconfig=text,
        image_target=target,
        images=helpers,
        gpus=gpus(settings),
        mirrors=settings.registry.mirrors,
        pull_secret=settings.registry.pull_secret(),
    )


def _network(azure: AzureCluster, wanted: LogicalNetwork | str, location: str) -> pulumi.Input[str]:
    """Return the ID of the existing network that the machines are in; or declare one."""
    if isinstance(wanted, str):
        return wanted
    out = azurestackhci.RouteArgs(
        name="default", address_prefix="0.0.0.0/0", next_hop_ip_address=wanted.gateway
    )
    subnet = azurestackhci.SubnetArgs(
        name="nodes",
        address_prefix=wanted.prefix,
        # The only method that AKS takes: a node keeps its address for life.
        ip_allocation_method="Static",
        ip_pools=[
            azurestackhci.IPPoolArgs(
                name="nodes", ip_pool_type="vm", start=wanted.pool_start, end=wanted.pool_end
            )
        ],
        route_table=azurestackhci.RouteTableArgs(routes=[out]),
        vlan=wanted.vlan,
    )
    network = azurestackhci.LogicalNetwork(
        azure.cluster_name,
        logical_network_name=f"{azure.cluster_name}-nodes",
        **azure.placed,
        extended_location=azurestackhci.ExtendedLocationArgs(type="CustomLocation", name=location),
        vm_switch_name=wanted.vm_switch,
        dhcp_options=azurestackhci.LogicalNetworkPropertiesDhcpOptionsArgs(
            dns_servers=list(wanted.dns_servers)
        ),
        subnets=[subnet],
        opts=azure.opts(replace_on=_FIXED_OF_NETWORK),
    )
    made: pulumi.Output[str] = network.id
    return made


def _kubeconfig(
    azure: AzureCluster,
    cluster: pulumi.Output[str],
    instance: pulumi.Resource,
    login: Login | None,
) -> pulumi.Output[str]:
    """Return what it takes to connect: your own login, or the administrator's without a `login`.

    Azure lists both for whoever reaches the cluster's own network, and there alone they work.
    """
    # Before there is an instance, there is nothing to list.
    opts = pulumi.InvokeOutputOptions(provider=azure.provider, depends_on=[instance])
    if login is None:
        listed = hybrid.list_provisioned_cluster_instance_admin_kubeconfig_output(
            connected_cluster_resource_uri=cluster, opts=opts
        )
    else:
        listed = hybrid.list_provisioned_cluster_instance_user_kubeconfig_output(
            connected_cluster_resource_uri=cluster, opts=opts
        )
    return kubeconfig(listed.properties, login)
