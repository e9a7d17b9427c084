"""The logical network that a cluster's machines are in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
from pulumi_azure_native import azurestackhci

from clusters.azure_local import bodies
from clusters.azure_local.nodes import LogicalNetwork

if TYPE_CHECKING:
    from clusters.azure_local.place import Place

_FIXED = ("extendedLocation", "location", "subnets", "vmSwitchName", "dhcpOptions")
"""What can't be changed of a logical network.

https://learn.microsoft.com/azure/azure-local/manage/create-logical-networks
"""


def network(place: Place) -> pulumi.Input[str]:
    """Return the ID of the network that is there, or of one that is declared."""
    wanted = place.settings.logical_network
    if not isinstance(wanted, LogicalNetwork):
        return wanted
    made = azurestackhci.LogicalNetwork(
        place.settings.name,
        logical_network_name=f"{place.settings.name}-nodes",
        resource_group_name=place.group,
        location=place.settings.location,
        extended_location=azurestackhci.ExtendedLocationArgs(**bodies.location(place.settings)),
        vm_switch_name=wanted.vm_switch,
        dhcp_options=azurestackhci.LogicalNetworkPropertiesDhcpOptionsArgs(
            dns_servers=list(wanted.dns_servers)
        ),
        subnets=[_subnet(wanted)],
        tags=place.tags,
        opts=place.opts(replace_on=_FIXED),
    )
    known: pulumi.Output[str] = made.id
    return known


def _subnet(wanted: LogicalNetwork) -> azurestackhci.SubnetArgs:
    out = azurestackhci.RouteArgs(
        name="default", address_prefix="0.0.0.0/0", next_hop_ip_address=wanted.gateway
    )
    return azurestackhci.SubnetArgs(
        name="nodes",
        address_prefix=wanted.prefix,
        # The only one that AKS takes: a node keeps its address for life.
        ip_allocation_method="Static",
        ip_pools=[
            azurestackhci.IPPoolArgs(
                name="nodes", ip_pool_type="vm", start=wanted.pool_start, end=wanted.pool_end
            )
        ],
        route_table=azurestackhci.RouteTableArgs(routes=[out]),
        vlan=wanted.vlan,
    )
