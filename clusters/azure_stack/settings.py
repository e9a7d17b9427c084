"""The settings under `slipway:cluster` for the kind `azure-stack`, with camelCase keys."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from typing import Annotated, Any

from pydantic import Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from clusters.azure.facts import cores, without_gpus
from clusters.azure.settings import DISTINCT, AzureSettings, Guid, resource_id, text_field
from clusters.azure_stack.machines import (
    ControlPlane,
    LocalGpuNodes,
    LogicalNetwork,
    Prefix,
    SystemPool,
)
from clusters.image_registry import Registry
from clusters.nodes import GpuPool, NodePool
from core.fields import CONFIG
from core.problem import Contradiction, contradiction, quote

_PRINTED = "the ID that `az customlocation show --query id` prints"
CustomLocation = Annotated[str, resource_id("Microsoft.ExtendedLocation/customLocations", _PRINTED)]
_EXISTING = "the ID of an existing logical network"
LogicalNetworkId = Annotated[str, resource_id("Microsoft.AzureStackHCI/logicalNetworks", _EXISTING)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Entra:
    """Access to the cluster through Microsoft Entra ID, which `pulumi up` also needs.

    Args:
        admin_groups: Object IDs of the groups whose members are administrators.
        azure_rbac: Also apply Azure role assignments; this can't be changed later.
        tenant: Entra tenant; by default the subscription's.
    """

    admin_groups: Annotated[tuple[Guid, ...], Field(min_length=1), DISTINCT]
    azure_rbac: bool = True
    tenant: Guid | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Disconnected:
    """Azure Local without internet access, with its own control plane.

    Args:
        control_plane: Host name of this control plane's resource manager.
    """

    control_plane: Annotated[str, text_field("host")]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AzureStackSettings(AzureSettings):
    """AKS on Azure Local: on a company's own machines, through Azure Arc.

    Args:
        subscription: The subscription of the Azure Local instance.
        location: The Azure region of the Azure Local instance; if `disconnected` is set, the
            region's name in the instance's own control plane.
        resource_group: An existing group; by default `slipway-<name>` is created.
        custom_location: The custom location that was created with the Azure Local instance.
        logical_network: The network for the cluster's machines: the ID of an existing one, or the
            properties of a new one.
        kubernetes_version: Kubernetes version; by default the newest that the instance supports.
        ssh_key: Public key for logging in to the machines.
        ssh_from: Addresses allowed to log in; by default all that can reach the machines.
        control_plane: The machines that run the API server.
        system: The nodes for the cluster's own pods, and for jobs without GPUs.
        gpu: Nodes with GPUs; by default none.
        pods: The address range for pods, outside the network.
        entra: Access through Microsoft Entra ID.
        registry: The private registry for all images.
        disconnected: Operation without internet access, with a separate control plane.
        production: Protect resources that hold data from deletion.
    """

    custom_location: CustomLocation
    logical_network: LogicalNetworkId | LogicalNetwork
    kubernetes_version: Annotated[str, text_field("localVersion")] | None = None
    ssh_key: Annotated[str, text_field("publicKey")]
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
        network, address = self.logical_network, self.control_plane.address
        yield from without_gpus("system", self.system.size)
        yield from without_gpus("controlPlane", self.control_plane.size)
        if self.disconnected is None and self.entra is None:
            text = "is missing; set adminGroups to the ID of a group that includes this account"
            text += ": az ad group show --group NAME --query id"
            yield contradiction(("entra",), text, "disconnected")
        elif self.disconnected is not None:
            yield from self._disconnected()
        if self.gpu is not None:
            yield from self.gpu.contradictions()
        if isinstance(network, LogicalNetwork):
            workers = self.system.nodes + (0 if self.gpu is None else self.gpu.max_nodes)
            yield from network.misplaced(self.pods, address)
            yield from network.too_small(self.control_plane.nodes + workers, address)

    def _disconnected(self) -> Iterator[Contradiction]:
        """Yield settings that require internet access, and images that nodes can't pull."""
        # https://learn.microsoft.com/azure/azure-local/manage/disconnected-operations-aks
        unsupported = {"gpu": "AKS then lacks GPU support", "entra": "Entra is then unreachable"}
        for key, why in unsupported.items():
            if getattr(self, key) is not None:
                text = f"can't be combined with `disconnected`: {why}; remove one"
                yield contradiction((key,), text, "disconnected")
        if not self.admin_kubeconfig:
            text = (
                "must be true if `disconnected` is set: without Entra, only the cluster's local "
                "administrator has access"
            )
            yield contradiction(("adminKubeconfig",), text, "disconnected")
        network = self.logical_network
        for index, server in enumerate(() if isinstance(network, str) else network.dns_servers):
            if not IPv4Address(server).is_private:
                why = "is a public address, which can't be reached when `disconnected` is set"
                text = f"{quote(server)} {why}"
                yield contradiction(("logicalNetwork", "dnsServers", index), text, "disconnected")
        reached = self.registry
        unreached = f"is not in {reached.host}, the only registry that can be reached"
        for public, private in reached.mirrors.items():
            if private.partition("/")[0] != reached.host:
                place, about = ("registry", "mirrors", public), ("disconnected", "registry.server")
                yield contradiction(place, f"{quote(private)} {unreached}", *about)
        for key, image in self.images.prebuilt.items():
            if not reached.has(image):
                about = ("disconnected", "registry")
                yield contradiction(("images", key), f"{quote(image)} {unreached}", *about)

    @property
    def own_groups(self) -> tuple[str, ...]:
        return (self.group,) if self.resource_group is None else ()

    @property
    def metadata_host(self) -> str | None:
        return None if self.disconnected is None else self.disconnected.control_plane

    @property
    def lasting(self) -> Mapping[str, Any]:
        network = self.logical_network
        new = {} if isinstance(network, str) else vars(network)
        common = super().lasting
        values = {
            **common["fixed"],
            "customLocation": self.custom_location,
            "logicalNetwork": ", ".join(f"{to_camel(k)} {v}" for k, v in new.items()) or network,
            "pods": self.pods,
            "sshKey": f"…{self.ssh_key.split()[1][-8:]}",
            "controlPlane.size": self.control_plane.size,
            "controlPlane.address": self.control_plane.address,
            "system.size": self.system.size,
            "entra.azureRbac": None if self.entra is None else self.entra.azure_rbac,
        }
        return {**common, "fixed": {key: str(value) for key, value in values.items()}}


def gpus(settings: AzureStackSettings) -> GpuPool | None:
    """Return the GPU pool and its properties for jobs, or None if there is none."""
    # Nodes come with the driver, and their GPUs are allocatable without further installation:
    # https://learn.microsoft.com/azure/aks/aksarc/deploy-gpu-node-pool
    gpu = settings.gpu
    return None if gpu is None else gpu.pool(driver="AKS on Azure Local", device_plugin=False)


def pools(settings: AzureStackSettings) -> tuple[NodePool, ...]:
    """Return all pools. The user owns them, so only the user's own price table can list prices."""
    system, gpu = settings.system, settings.gpu
    pools = [("system", system.size, system.nodes, system.nodes, 0)]
    if gpu is not None:
        pools.append(("gpu", gpu.size, gpu.min_nodes, gpu.max_nodes, gpu.per_node))
    # The number of cores that AKS reserves here is not documented.
    return tuple(
        NodePool(name, "azure-local", settings.location, size, least, most, gpus, cores=cores(size))
        for name, size, least, most, gpus in pools
    )
