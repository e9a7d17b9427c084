"""The settings of the kind `azure-stack` below `slipway:cluster`. In a YAML keys are camelCase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from clusters.azure import LOCAL_GPUS, cores
from clusters.azure.settings import (
    DISTINCT,
    AzureSettings,
    GpuNodes,
    Guid,
    Size,
    parsed,
    regex,
    resource_id,
)
from clusters.azure_stack import rules
from clusters.image_registry import Registry
from clusters.pools import GpuPool, NodePool
from core.fields import CONFIG
from core.problem import Contradiction

_ADDRESS = "an IPv4 address, such as 10.20.0.10"
_PREFIX = "an IPv4 network in CIDR notation, such as 10.20.0.0/24"

Address = Annotated[str, Field(description=_ADDRESS), parsed(IPv4Address, _ADDRESS)]
Prefix = Annotated[
    str, Field(description=_PREFIX), parsed(partial(IPv4Network, strict=False), _PREFIX)
]
_PRINTED = "the ID that `az customlocation show --query id` prints"
CustomLocation = Annotated[str, resource_id("Microsoft.ExtendedLocation/customLocations", _PRINTED)]
_EXISTING = "the ID of an existing logical network"
LogicalNetworkId = Annotated[str, resource_id("Microsoft.AzureStackHCI/logicalNetworks", _EXISTING)]
_KEY = "the line of an RSA public key, as in ~/.ssh/id_rsa.pub: ssh-rsa AAAA…"
PublicKey = Annotated[str, regex(r"^ssh-rsa [A-Za-z0-9+/]+={0,3}( \S.*)?$", _KEY)]
# https://learn.microsoft.com/azure/aks/aksarc/scale-requirements
_NODES = "a whole number from 1 to 64: AKS on Azure Local has no empty node pools"
PoolNodes = Annotated[int, Field(ge=1, le=64, description=_NODES)]
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_HOST = "a host name with no https:// before it, such as armmanagement.autonomous.cloud.private"
Host = Annotated[str, regex(rf"^{_LABEL}(\.{_LABEL})+(:[0-9]{{1,5}})?$", _HOST)]
Version = Annotated[str, regex(r"^1\.[0-9]{2}\.[0-9]+$", "a version such as 1.31.5")]


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


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Entra:
    """Who gets into the cluster, by Microsoft Entra ID. Whoever runs `pulumi up` has to.

    Args:
        admin_groups: Groups whose members may do anything, by object ID.
        azure_rbac: Let Azure's role assignments decide too; it can't be changed later.
        tenant: The subscription's own unless set.
    """

    admin_groups: Annotated[tuple[Guid, ...], Field(min_length=1), DISTINCT]
    azure_rbac: bool = True
    tenant: Guid | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Disconnected:
    """Azure Local with a control plane of its own, and nothing of the internet.

    Args:
        control_plane: The host name of its resource manager.
    """

    control_plane: Host


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Settings(AzureSettings):
    """AKS on Azure Local: on a company's own machines, through Azure Arc.

    Args:
        subscription: That the Azure Local instance belongs to.
        location: The Azure Local instance's region in Azure; with a control plane of its own, what
            that calls it.
        resource_group: An existing one; unless set, `slipway-<name>` is made.
        custom_location: Stands for the Azure Local instance, and was made with it.
        logical_network: The network of the cluster's machines: the ID of an existing one, or the
            properties of one to make.
        kubernetes_version: The newest that the instance has unless set.
        ssh_key: Of whoever may log in on the machines.
        ssh_from: Addresses that they may do so from; anything that reaches them unless set.
        control_plane: The machines of the API server.
        system: The nodes of the cluster's own pods, and of jobs without GPUs.
        gpu: Nodes with GPUs; none unless set.
        pods: The addresses of pods, which are none of the network.
        entra: Who gets in.
        registry: The private registry that all images come from.
        disconnected: Without the internet, under a control plane of its own.
        production: Whether what holds data is protected from deletion.
    """

    custom_location: CustomLocation
    logical_network: LogicalNetworkId | LogicalNetwork
    kubernetes_version: Version | None = None
    ssh_key: PublicKey
    ssh_from: tuple[Prefix, ...] = ()
    control_plane: ControlPlane = ControlPlane()
    system: SystemPool = SystemPool()
    gpu: LocalGpuNodes | None = None
    pods: Prefix = "10.244.0.0/16"
    entra: Entra | None = None
    registry: Registry
    disconnected: Disconnected | None = None

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        yield from rules.contradictions(self)

    @property
    def own_groups(self) -> tuple[str, ...]:
        """The resource group, if the stack makes it."""
        return (self.group,) if self.resource_group is None else ()

    @property
    def metadata_host(self) -> str | None:
        """The host of its own control plane."""
        return None if self.disconnected is None else self.disconnected.control_plane

    @property
    def lasting(self) -> Mapping[str, Any]:
        """Each setting of which another value makes the cluster anew, by its key."""
        network = self.logical_network
        made = {} if isinstance(network, str) else asdict(network)
        values = {
            "name": self.resource_name,
            "resourceGroup": self.group,
            "location": self.location,
            "customLocation": self.custom_location,
            "logicalNetwork": ", ".join(f"{to_camel(k)} {v}" for k, v in made.items()) or network,
            "pods": self.pods,
            "sshKey": f"…{self.ssh_key.split()[1][-8:]}",
            "controlPlane.size": self.control_plane.size,
            "controlPlane.address": self.control_plane.address,
            "system.size": self.system.size,
            "entra.azureRbac": None if self.entra is None else self.entra.azure_rbac,
        }
        return {"fixed": {key: str(value) for key, value in values.items()}}


def gpus(settings: Settings) -> GpuPool | None:
    """Return the pool with GPUs as jobs have to know it; None without one."""
    # A node comes with the driver, and offers its GPUs without anything being installed:
    # https://learn.microsoft.com/azure/aks/aksarc/deploy-gpu-node-pool
    gpu = settings.gpu
    return None if gpu is None else gpu.pool(driver="AKS on Azure Local", device_plugin=False)


def pools(settings: Settings) -> tuple[NodePool, ...]:
    """Return every pool, of your own machines: only your own table has a price for them."""
    system, gpu = settings.system, settings.gpu
    pools = [("system", system.size, system.nodes, system.nodes, 0)]
    if gpu is not None:
        pools.append(("gpu", gpu.size, gpu.min_nodes, gpu.max_nodes, gpu.per_node))
    # How many cores AKS reserves for itself here is not documented.
    return tuple(
        NodePool(name, "azure-local", settings.location, size, least, most, gpus, cores=cores(size))
        for name, size, least, most, gpus in pools
    )
