"""What `slipway:cluster` may say for the kind `aks`. In the configuration keys are camelCase."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from clusters.azure.consistency import contradictions
from clusters.azure.fields import (
    CONFIG,
    ClusterName,
    Guid,
    Location,
    Ranges,
    ResourceGroupName,
    SubnetId,
    TagKey,
    TagValue,
    Version,
)
from clusters.azure.nodes import CpuPool, GpuNodes, SystemPool
from clusters.azure.services import Budget, Images, Logs, RegistrySettings, StorageSettings
from core.problem import contradictory


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Api:
    """Who reaches the cluster's API server: exactly one of the two.

    Args:
        authorized_ranges: Public addresses from which it may be reached, and no others.
        private: It has an address in the cluster's network alone, so `pulumi up` has to run there.
    """

    authorized_ranges: tuple[Ranges, ...] = ()
    private: bool = False


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Admins:
    """Who may do anything in the cluster, by their object IDs in Entra: one at least.

    Whoever runs `pulumi up` has to be one of them.

    Args:
        groups: `az ad group show --group NAME --query id`.
        users: `az ad signed-in-user show --query id`.
        service_principals: `az ad sp show --id APP --query id`.
    """

    groups: tuple[Guid, ...] = ()
    users: tuple[Guid, ...] = ()
    service_principals: tuple[Guid, ...] = ()


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Network:
    """The cluster's addresses. None of the three ranges may overlap another.

    Args:
        addresses: Of the virtual network.
        nodes: Of its subnet for nodes.
        pods: Of pods, which are no addresses of the network.
        services: Of Services.
        subnet: The ID of a subnet that is there, instead of a network of the stack's own.
    """

    addresses: Ranges = "10.40.0.0/16"
    nodes: Ranges = "10.40.0.0/20"
    pods: Ranges = "10.244.0.0/16"
    services: Ranges = "10.41.0.0/16"
    subnet: SubnetId | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Settings:
    """An AKS cluster with all that belongs to it.

    Args:
        name: Of the cluster; everything else is called after it.
        subscription: Who pays: `az account show --query id`.
        location: Where everything is.
        resource_group: That everything is in but the nodes; `slipway-<name>` unless said.
        kubernetes_version: AKS's default unless said.
        tier: Of the control plane. Free has no promise of uptime.
        api: Who reaches the API server.
        admins: Who may do anything in the cluster.
        network: The cluster's addresses.
        system: The nodes of the cluster's own pods.
        cpu: Nodes for jobs without GPUs; without, they run beside the cluster's own pods.
        gpu: Nodes with GPUs; `false` for none.
        idle_minutes: After which a node that no pod needs is given back.
        registry: For job images.
        images: Images that are somewhere already.
        storage: For data and artifacts.
        logs: Diagnostic logs.
        budget: What may be spent in a month before somebody is told; `false` for no limit.
        tags: On everything, besides Slipway's own.
        production: Whether everything is protected from deletion.
        login: How kubelogin logs in wherever the kubeconfig is used.
        admin_kubeconfig: Use the cluster's own administrator, who is no person of Entra.
    """

    name: ClusterName
    subscription: Guid
    location: Location
    resource_group: ResourceGroupName | None = None
    kubernetes_version: Version | None = None
    tier: Literal["Free", "Standard"] = "Free"
    api: Api
    admins: Admins
    network: Network = Network()
    system: SystemPool = SystemPool()
    cpu: CpuPool | None = None
    gpu: GpuNodes | Literal[False] = GpuNodes()
    idle_minutes: Annotated[int, Field(ge=1, le=120)] = 10
    registry: RegistrySettings = RegistrySettings()
    images: Images = Images()
    storage: StorageSettings = StorageSettings()
    logs: Logs = Logs()
    budget: Budget | Literal[False]
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)
    production: bool = False
    login: Literal["azurecli", "workloadidentity", "spn", "msi"] = "azurecli"
    admin_kubeconfig: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if found := contradictions(self):
            raise contradictory(found)
        return self
