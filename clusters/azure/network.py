"""The virtual network of an AKS cluster."""

import pulumi
from pulumi_azure_native import network

from clusters.azure.place import Place


def subnet(place: Place) -> str | pulumi.Output[str]:
    """Declare the network and return the ID of its subnet for nodes; or of one that is there.

    The nodes' security group has no rule of its own: Azure's defaults let nothing in from
    outside of the network but the load balancer's probes
    (https://learn.microsoft.com/azure/virtual-network/network-security-groups-overview).
    """
    wanted = place.settings.network
    if wanted.subnet is not None:
        return wanted.subnet
    name = place.settings.name
    guard = network.NetworkSecurityGroup(
        f"{name}-nodes",
        network_security_group_name=f"{name}-nodes",
        resource_group_name=place.group_name,
        location=place.settings.location,
        tags=place.tags,
        opts=place.opts(),
    )
    around = network.VirtualNetwork(
        name,
        virtual_network_name=f"slipway-{name}",
        resource_group_name=place.group_name,
        location=place.settings.location,
        address_space=network.AddressSpaceArgs(address_prefixes=[wanted.addresses]),
        tags=place.tags,
        # Its subnet is a resource of its own.
        opts=place.opts(ignore=["subnets"]),
    )
    nodes = network.Subnet(
        f"{name}-nodes",
        subnet_name="nodes",
        virtual_network_name=f"slipway-{name}",
        resource_group_name=place.group_name,
        address_prefix=wanted.nodes,
        network_security_group=network.NetworkSecurityGroupArgs(id=guard.id),
        # By which the storage account tells that a request comes from here.
        service_endpoints=[
            network.ServiceEndpointPropertiesFormatArgs(service="Microsoft.Storage")
        ],
        opts=place.opts(around),
    )
    made: pulumi.Output[str] = nodes.id
    return made
