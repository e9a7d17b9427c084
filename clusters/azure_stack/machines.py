"""The settings of the machines that AKS on Azure Local makes, and of their network."""

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.azure.facts import LOCAL_GPUS
from clusters.azure.settings import DISTINCT, GpuNodes, Size, parsed
from core.fields import CONFIG
from core.problem import Contradiction, contradiction, quote

_ADDRESS = "an IPv4 address, such as 10.20.0.10"
_PREFIX = "an IPv4 network in CIDR notation, such as 10.20.0.0/24"

Address = Annotated[str, Field(description=_ADDRESS), parsed(IPv4Address, _ADDRESS)]
Prefix = Annotated[
    str, Field(description=_PREFIX), parsed(partial(IPv4Network, strict=False), _PREFIX)
]
# https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
_NODES = "a whole number from 1 to 64: AKS on Azure Local has no empty node pools"
PoolNodes = Annotated[int, Field(ge=1, le=64, description=_NODES)]
_POOL = ("logicalNetwork.poolStart", "logicalNetwork.poolEnd")


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class ControlPlane:
    """The machines of the API server.

    Args:
        nodes: How many; with 3 or 5 one may be lost.
        size: Of each.
        address: Of the API server, for good; of the logical network, and outside of its pool.
            Chosen by AKS unless set.
    """

    # https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
    nodes: Literal[1, 3, 5] = 1
    size: Size = "Standard_A4_v2"
    address: Address | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SystemPool:
    """The nodes of the cluster's own pods, of the operator, and of jobs without GPUs.

    Args:
        size: Of each node.
        nodes: How many.
    """

    size: Size = "Standard_D8s_v3"
    nodes: PoolNodes = 2


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class LocalGpuNodes(GpuNodes):
    """Nodes with GPUs.

    Args:
        min_nodes: The pool never has fewer; one at least, for there are no empty pools here.
        max_nodes: The pool never has more; with more than `min_nodes` it grows and shrinks.
    """

    KNOWN = LOCAL_GPUS
    OWN_LABEL = "slipway.dev/pool"

    min_nodes: PoolNodes = 1
    max_nodes: PoolNodes = 1

    @property
    def grows(self) -> bool:
        """Whether a node is made for a job that finds none."""
        return self.max_nodes > self.min_nodes


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class LogicalNetwork:
    """A network for the cluster's machines that the stack makes. Its addresses are static.

    AKS on Azure Local takes no other:
    https://learn.microsoft.com/azure/aks/aksarc/aks-hci-network-system-requirements

    Args:
        vm_switch: The virtual switch of the hosts that it is on: `Get-VMSwitch`.
        prefix: Its addresses.
        gateway: One of them.
        dns_servers: They must resolve the name of the Azure Local instance.
        pool_start: The first address that machines may have.
        pool_end: The last.
        vlan: Its number; 0 for none.
    """

    vm_switch: Annotated[str, Field(min_length=1, description="a virtual switch's name")]
    prefix: Prefix
    gateway: Address
    dns_servers: Annotated[tuple[Address, ...], Field(min_length=1), DISTINCT]
    pool_start: Address
    pool_end: Address
    vlan: Annotated[int, Field(ge=0, le=4094)] = 0

    def misplaced(self, pods: str, address: str | None) -> Iterator[Contradiction]:
        """Yield addresses that can't be where they are, those of pods and the API server too."""
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
                text = (
                    f'"{place}" is one of the pool of logicalNetwork, which machines may be given'
                )
                yield contradiction(path, text, *_POOL)
        if last < first:
            text = f'"{last}" is before poolStart, "{first}"'
            yield contradiction(("logicalNetwork", "poolEnd"), text, "logicalNetwork.poolStart")
        if prefix.overlaps(IPv4Network(pods)):
            text = f"{quote(pods)} overlaps the prefix of logicalNetwork, {prefix}"
            yield contradiction(("pods",), text, "logicalNetwork.prefix")

    def too_small(self, machines: int, address: str | None) -> Iterator[Contradiction]:
        """Yield a pool of addresses that is too small for so many machines."""
        count = int(IPv4Address(self.pool_end)) - int(IPv4Address(self.pool_start)) + 1
        # Each machine keeps its own, and an upgrade makes one more before it removes an old one.
        # The API server's is one of the pool's unless it is set.
        needed = machines + 1 + (1 if address is None else 0)
        if 0 < count < needed:
            text = f"{quote(self.pool_end)} leaves {count} addresses, while the machines and an "
            others = ("logicalNetwork.poolStart", "controlPlane", "system.nodes", "gpu.maxNodes")
            place = ("logicalNetwork", "poolEnd")
            yield contradiction(place, f"{text}upgrade need {needed}", *others)
