"""What `slipway:cluster` may say for the kind `azure-stack`. Its keys are camelCase there."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from clusters.azure.fields import (
    CONFIG,
    ClusterName,
    Guid,
    Location,
    ResourceGroupName,
    TagKey,
    TagValue,
)
from clusters.azure.services import Images
from clusters.azure_local.consistency import contradictions
from clusters.azure_local.fields import (
    CustomLocation,
    Host,
    LogicalNetworkId,
    Prefix,
    PublicKey,
)
from clusters.azure_local.nodes import ControlPlane, GpuNodes, LogicalNetwork, SystemPool
from clusters.registry import Registry
from core.problem import contradictory


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Entra:
    """Who gets into the cluster, by Microsoft Entra ID. Whoever runs `pulumi up` has to.

    Args:
        admin_groups: Groups whose members may do anything, by object ID.
        azure_rbac: Let Azure's role assignments decide too; it can't be changed later.
        tenant: The subscription's own unless said.
    """

    admin_groups: Annotated[tuple[Guid, ...], Field(min_length=1)]
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
class Settings:
    """AKS on Azure Local: on a company's own machines, through Azure Arc.

    Args:
        name: Of the cluster; everything else is called after it.
        subscription: That the Azure Local instance belongs to.
        location: Its region in Azure; with a control plane of its own what that is called there.
        resource_group: One that is there; unless said, `slipway-<name>` is made.
        custom_location: Stands for the Azure Local instance, and was made with it.
        logical_network: The network of the cluster's machines: the ID of one that is there, or
            what one to make is like.
        kubernetes_version: The newest that the instance has unless said.
        ssh_key: Of whoever may log in on the machines.
        ssh_from: Addresses that they may do so from; anything that reaches them unless said.
        control_plane: The machines of the API server.
        system: The nodes of the cluster's own pods, and of jobs without GPUs.
        gpu: Nodes with GPUs; none unless said.
        pods: The addresses of pods, which are none of the network.
        entra: Who gets in.
        login: How kubelogin logs in wherever the kubeconfig is used.
        admin_kubeconfig: Use the cluster's own administrator, who is no person of Entra.
        registry: The private registry that all images come from.
        images: Images that are somewhere already, where the nodes may pull them.
        disconnected: Without the internet, under a control plane of its own.
        tags: On everything that may have some, besides Slipway's own.
        production: Whether what holds data is protected from deletion.
    """

    name: ClusterName
    subscription: Guid
    location: Location
    resource_group: ResourceGroupName | None = None
    custom_location: CustomLocation
    logical_network: LogicalNetworkId | LogicalNetwork
    kubernetes_version: (
        Annotated[
            str, Field(pattern=r"^1\.[0-9]{2}\.[0-9]+$", description="a version such as 1.31.5")
        ]
        | None
    ) = None
    ssh_key: PublicKey
    ssh_from: tuple[Prefix, ...] = ()
    control_plane: ControlPlane = ControlPlane()
    system: SystemPool = SystemPool()
    gpu: GpuNodes | None = None
    pods: Prefix = "10.244.0.0/16"
    entra: Entra | None = None
    login: Literal["azurecli", "workloadidentity", "spn", "msi"] = "azurecli"
    admin_kubeconfig: bool = False
    registry: Registry
    images: Images = Images()
    disconnected: Disconnected | None = None
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)
    production: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := contradictions(self):
            raise contradictory(found)
        return self
