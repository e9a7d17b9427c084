"""The settings under `slipway:cluster` for the kind `aks`, and the node pools that they define.

The classes for the pools' own settings are in `clusters.aks.pools`.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clusters.aks.access import Admins, Api, Network
from clusters.aks.pools import AksGpuNodes, CpuPool, SystemPool
from clusters.azure.facts import cards, cores_for_pods, network, reserved
from clusters.azure.settings import DISTINCT, AzureSettings, text_field
from clusters.nodes import GpuPool, NodePool
from core.fields import CONFIG, number
from core.manifests import read
from core.problem import Contradiction, contradiction

CONSTANTS = read(Path(__file__).with_name("constants.yaml"))
"""Values that are the same for every AKS cluster."""
GPU, GPU_FALLBACK = "gpu", "gpufallback"
"""Names of the GPU pools; AKS accepts at most 12 characters from a-z and 0-9
(https://learn.microsoft.com/azure/aks/create-node-pools#limitations)."""
Email = Annotated[str, text_field("email")]
Amount = Annotated[float, text_field("amount"), BeforeValidator(number)]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Registry:
    """The container registry that job images are pushed to.

    Args:
        name: Unique across Azure; by default derived from the subscription and the resource group.
        sku: Service tier, which limits the storage and sets the price.
    """

    name: Annotated[str, text_field("registry")] | None = None
    sku: Literal["Basic", "Standard", "Premium"] = "Standard"


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Storage:
    """The storage account for data and artifacts.

    Args:
        name: Unique across Azure; by default derived from the subscription and the resource group.
        redundancy: The replication of the data within and across Azure regions.
        retention_days: Number of days for which deleted data can be restored.
    """

    name: Annotated[str, text_field("storage")] | None = None
    redundancy: Literal["Standard_LRS", "Standard_ZRS", "Standard_GRS", "Standard_GZRS"] = (
        "Standard_LRS"
    )
    retention_days: Annotated[int, Field(ge=1, le=365)] = 7


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Logs:
    """Diagnostic logs from the control plane, the registry and the storage account.

    Args:
        retention_days: Number of days to keep the logs; the first 30 are free of charge.
        daily_gib: Maximum number of GiB to ingest per day; -1 for no limit.
    """

    retention_days: Annotated[int, Field(ge=30, le=730)] = 30
    daily_gib: Annotated[float, Field(ge=-1, allow_inf_nan=False), BeforeValidator(number)] = 1


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Budget:
    """A monthly budget that triggers emails but does not stop anything.

    Args:
        amount: Amount in the subscription's currency, for all of the stack's resources.
        emails: Recipients of emails when 80% or 100% is spent, or more than 100% is forecast.
    """

    amount: Amount
    emails: Annotated[tuple[Email, ...], Field(min_length=1, max_length=50), DISTINCT]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AksSettings(AzureSettings):
    """An AKS cluster with its services.

    Args:
        subscription: ID of the subscription to bill: `az account show --query id`.
        location: The region for all resources.
        resource_group: Group for all resources except the nodes; by default `slipway-<name>`.
        kubernetes_version: Kubernetes version; by default AKS's default.
        tier: Control plane tier. Free has no uptime SLA.
        api: Access to the API server.
        admins: The cluster's administrators; by default the account that runs `pulumi up`.
        network: The cluster's address ranges.
        system: The nodes for the cluster's own pods.
        cpu: Nodes for jobs without GPUs; if not set, those jobs run on the `system` nodes.
        gpu: Nodes with GPUs; `false` for none.
        idle_minutes: Minutes after which a node that no pod needs is removed.
        registry: The container registry for job images.
        storage: The storage account for data and artifacts.
        logs: Diagnostic logs.
        budget: A monthly budget that triggers emails; `false` for none.
        production: Protect all resources from deletion.
    """

    kubernetes_version: Annotated[str, text_field("version")] | None = None
    tier: Literal["Free", "Standard"] = "Free"
    api: Api
    admins: Admins = Admins()
    network: Network = Network()
    system: SystemPool = SystemPool()
    cpu: CpuPool | None = None
    gpu: AksGpuNodes | Literal[False] = AksGpuNodes()
    idle_minutes: Annotated[int, Field(ge=1, le=120)] = 10
    registry: Registry = Registry()
    storage: Storage = Storage()
    logs: Logs = Logs()
    budget: Budget | Literal[False]

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        yield from reserved(("registry", "name"), self.registry.name)
        yield from reserved(("storage", "name"), self.storage.name)
        yield from self.admins.contradictions(self.login)
        for part in (self.api, self.network, self.system, self.cpu, self.gpu):
            if part:
                yield from part.contradictions()
        if (most := self.logs.daily_gib) != -1 and most <= 0:
            text = f"{most:g} is not allowed; it must be -1 for no limit, or a number above 0"
            yield contradiction(("logs", "dailyGib"), text)

    @property
    def node_group(self) -> str:
        """The resource group that AKS creates for the nodes, their disks and IP addresses."""
        return f"{self.group}-nodes"

    @property
    def own_groups(self) -> tuple[str, ...]:
        return (self.group, self.node_group)

    @property
    def registry_name(self) -> str:
        return self._unique(50) if self.registry.name is None else self.registry.name

    @property
    def storage_name(self) -> str:
        return self._unique(24) if self.storage.name is None else self.storage.name

    @property
    def lasting(self) -> Mapping[str, Any]:
        # https://github.com/pulumi/pulumi-azure-native/blob/master/provider/pkg/gen/replacement.go
        system, network, common = self.system, self.network, super().lasting
        subnet = network.subnet or f"of its own, {network.nodes}"
        pods = "no pods of jobs" if self.cpu is not None else "pods of jobs"
        return {
            "refused": common["refused"] | {"network.subnet": subnet},
            "fixed": common["fixed"]
            | {"network.pods": network.pods, "network.services": network.services},
            "left": {
                "system": f"{system.min_nodes} to {system.max_nodes} of {system.size} with {pods}",
                "system.zones": ", ".join(system.zones) or "none",
                "system.osDisk": f"{system.os_disk.type}, {system.os_disk.gib} GiB",
            },
            "byHand": "Its number of nodes: `az aks nodepool update --name system --resource-group "
            f"{self.group} --cluster-name {self.resource_name} --update-cluster-autoscaler "
            f"--min-count {system.min_nodes} --max-count {system.max_nodes} --subscription "
            f"{self.subscription}`",
        }

    def _unique(self, most: int) -> str:
        """Return a stable name for this cluster with at most `most` characters."""
        owner = f"{self.subscription}/{self.group}".lower()
        # The digest is not a secret; it only distinguishes owners.
        digest = hashlib.sha256(owner.encode()).hexdigest()[:8]
        return f"slipway{self.name.replace('-', '')}"[: most - len(digest)] + digest


def node_pools(settings: AksSettings) -> dict[str, SystemPool | AksGpuNodes]:
    """Return all node pools, keyed by name."""
    cpu = {} if settings.cpu is None else {"cpu": settings.cpu}
    return {"system": settings.system, **cpu, **gpu_pools(settings)}


def gpu_pools(settings: AksSettings) -> dict[str, AksGpuNodes]:
    """Return the GPU pools, keyed by name, the preferred pool first."""
    if not settings.gpu:
        return {}
    fallback = settings.gpu.fallback
    return {GPU: settings.gpu, **({} if fallback is None else {GPU_FALLBACK: fallback})}


def gpus(settings: AksSettings) -> GpuPool | None:
    """Return the GPU nodes and their properties for jobs, or None if there are none."""
    pools = [*gpu_pools(settings).values()]
    if not settings.gpu:
        return None
    # The GPU operator installs a device plugin; two of them would conflict.
    by_aks = settings.gpu.driver == "aks"
    driver = "AKS" if by_aks else "NVIDIA's GPU operator"
    kinds = (card for each in pools for card in cards(each.size))
    return replace(
        settings.gpu.pool(driver=driver, device_plugin=by_aks),
        min_nodes=sum(each.min_nodes for each in pools),
        max_nodes=sum(each.max_nodes for each in pools),
        # The labels that all nodes have in common: spot nodes have an additional label and taint.
        labels=pools[-1].all_labels,
        fallback=len(pools) > 1,
        # The CUDA version of a driver that the user installs is unknown.
        cards=tuple(card if by_aks else replace(card, cuda=None) for card in kinds),
    )


def pools(settings: AksSettings) -> tuple[NodePool, ...]:
    """Return all pools, for cost estimates and scheduling; their nodes are billed by the hour."""
    return tuple(
        NodePool(
            name=name,
            provider="azure",
            region=settings.location,
            size=pool.size,
            min_nodes=pool.min_nodes,
            max_nodes=pool.max_nodes,
            gpus=pool.per_node,
            spot=pool.spot is not None,
            dollars=None if pool.spot is None else pool.spot.dollars,
            cores=cores_for_pods(pool.size),
            network=network(pool.size) if pool.max_nodes > 1 else "",
            # With a pool `cpu`, the pool `system` only runs the cluster's own pods.
            takes_jobs=name != "system" or settings.cpu is None,
        )
        for name, pool in node_pools(settings).items()
    )
