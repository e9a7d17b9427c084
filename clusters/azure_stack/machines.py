"""Settings for the virtual machines that AKS on Azure Local creates, and for their network."""

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.azure.facts import LOCAL_GPUS
from clusters.azure.settings import DISTINCT, GpuNodes, Size, parsed, text_field
from core.fields import CONFIG
from core.problem import Contradiction, contradiction, quote

Address = Annotated[str, text_field("address"), parsed(IPv4Address)]
Prefix = Annotated[str, text_field("prefix"), parsed(partial(IPv4Network, strict=False))]
PoolNodes = Annotated[int, text_field("poolNodes")]
_POOL = ("logicalNetwork.poolStart", "logicalNetwork.poolEnd")


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class ControlPlane:
    """The machines that run the API server.

    Args:
        nodes: Number of machines; 3 tolerate the failure of one machine, and 5 the failure of two.
        size: Size of each machine.
        address: Static IP address for the API server, in the logical network but outside the
            network's pool; by default AKS chooses one.
    """

    # https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
    nodes: Literal[1, 3, 5] = 1
    size: Size = "Standard_A4_v2"
    address: Address | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SystemPool:
    """The nodes for the cluster's own pods, the operator, and jobs without GPUs.

    Args:
        size: Size of each node.
        nodes: Number of nodes.
    """

    size: Size = "Standard_D8s_v3"
    nodes: PoolNodes = 2


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class LocalGpuNodes(GpuNodes):
    """Nodes with GPUs.

    Args:
        min_nodes: Minimum number of nodes; at least one, as AKS does not allow empty pools here.
        max_nodes: Maximum number of nodes; if above `min_nodes`, the pool is autoscaled.
    """

    KNOWN = LOCAL_GPUS
    OWN_LABEL = "slipway.dev/pool"

    min_nodes: PoolNodes = 1
    max_nodes: PoolNodes = 1

    @property
    def grows(self) -> bool:
        """True if the pool is autoscaled."""
        return self.max_nodes > self.min_nodes


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class LogicalNetwork:
    """A network that the stack creates for the cluster's machines, with static addresses.

    AKS on Azure Local accepts no other kind of network:
    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements

    Args:
        vm_switch: Name of the hosts' virtual switch, which `Get-VMSwitch` lists.
        prefix: The network's address range.
        gateway: The gateway's address in the network.
        dns_servers: DNS servers, which must resolve the name of the Azure Local instance.
        pool_start: The first address in the pool for machines.
        pool_end: The last address in the pool for machines.
        vlan: The VLAN ID; 0 for none.
    """

    vm_switch: Annotated[str, Field(min_length=1, description="a virtual switch's name")]
    prefix: Prefix
    gateway: Address
    dns_servers: Annotated[tuple[Address, ...], Field(min_length=1), DISTINCT]
    pool_start: Address
    pool_end: Address
    vlan: Annotated[int, Field(ge=0, le=4094)] = 0

    def misplaced(self, pods: str, address: str | None) -> Iterator[Contradiction]:
        """Yield conflicts between the addresses of the network, the pods and the API server."""
        prefix = IPv4Network(self.prefix)
        first, last = IPv4Address(self.pool_start), IPv4Address(self.pool_end)
        gateway = {("logicalNetwork", "gateway"): IPv4Address(self.gateway)}
        ends = {("logicalNetwork", "poolStart"): first, ("logicalNetwork", "poolEnd"): last}
        api = {} if address is None else {("controlPlane", "address"): IPv4Address(address)}
        for path, place in {**gateway, **ends, **api}.items():
            if place not in prefix:
                text = f'"{place}" is not in the prefix of logicalNetwork, {prefix}'
                yield contradiction(path, text, "logicalNetwork.prefix")
        for path, place in {**gateway, **api}.items():
            if first <= place <= last:
                text = f'"{place}" is in the pool of logicalNetwork, which is reserved for machines'
                yield contradiction(path, text, *_POOL)
        if last < first:
            text = f'"{last}" is before poolStart, "{first}"'
            yield contradiction(("logicalNetwork", "poolEnd"), text, "logicalNetwork.poolStart")
        if prefix.overlaps(IPv4Network(pods)):
            text = f"{quote(pods)} overlaps logicalNetwork's prefix {prefix}; set a different range"
            yield contradiction(("pods",), text, "logicalNetwork.prefix")

    def too_small(self, machines: int, address: str | None) -> Iterator[Contradiction]:
        """Yield a contradiction if the address pool is too small for the machines."""
        count = int(IPv4Address(self.pool_end)) - int(IPv4Address(self.pool_start)) + 1
        # An upgrade adds a machine before it removes an old one. The API server's address comes
        # from the pool unless it is set.
        needed = machines + 1 + (1 if address is None else 0)
        if 0 < count < needed:
            text = f"{quote(self.pool_end)} leaves {count} addresses, but the machines and an "
            others = ("logicalNetwork.poolStart", "controlPlane", "system.nodes", "gpu.maxNodes")
            place = ("logicalNetwork", "poolEnd")
            yield contradiction(place, f"{text}upgrade need {needed}; set a later address", *others)
