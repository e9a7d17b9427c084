"""The node pools of an AKS cluster: their settings, and what jobs and the price need of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusters.azure import GPUS, cores_for_pods
from clusters.azure.settings import GpuNodes, NodeTaint, Size
from clusters.pools import GpuPool, NodePool
from core.fields import CONFIG

if TYPE_CHECKING:
    from clusters.aks.settings import Settings

SPOT = ("kubernetes.azure.com/scalesetpriority", "spot")
"""The key and the value of the label and of the taint that AKS gives to spot nodes.

https://learn.microsoft.com/azure/aks/spot-node-pool
"""
_MAX_PRICE = "-1, or a number above 0 with at most 5 decimals"
Zone = Annotated[str, Field(pattern="^[1-3]$", description='a zone of the region: "1", "2" or "3"')]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class OsDisk:
    """A node's disk, for images and for what pods write.

    Args:
        type: Ephemeral is on the machine itself: faster, at no price, and no larger than its cache
            or temporary disk. Managed is beside it, and paid for.
        gib: Its size; the CUDA image alone takes 10.
    """

    type: Literal["Managed", "Ephemeral"] = "Managed"
    gib: Annotated[int, Field(ge=30, le=2048)] = 128


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Spot:
    """Nodes that Azure may take back at any time, for a lower price.

    Args:
        eviction_policy: What becomes of a node that is taken back. One that is deallocated goes on
            counting against the quota, and its disk is paid for.
        max_price: US dollars per hour and node above which it is taken back; -1 for never because
            of its price.
    """

    eviction_policy: Literal["Delete", "Deallocate"] = "Delete"
    max_price: Annotated[float, Field(ge=-1, allow_inf_nan=False, description=_MAX_PRICE)] = -1


_NEVER_SPOT = ConfigDict(
    **CONFIG,
    json_schema_extra={
        "absent": {"spot": "these nodes are never spot nodes; of the pools only gpu may have them"}
    },
)


@dataclass(frozen=True, kw_only=True, config=_NEVER_SPOT)
class SystemPool:
    """The nodes that the cluster's own pods run on, and without a pool `cpu` the operator's too.

    Args:
        size: Of each node.
        min_nodes: The pool never has fewer; AKS needs one at least.
        max_nodes: The pool never has more.
        zones: Zones of the region that the nodes are spread over.
        os_disk: Of each node.
    """

    size: Size = "Standard_D4s_v5"
    min_nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 3
    zones: tuple[Zone, ...] = ()
    os_disk: OsDisk = OsDisk()


@dataclass(frozen=True, kw_only=True, config=_NEVER_SPOT)
class CpuPool(SystemPool):
    """Nodes for the operator and for jobs without GPUs, so that `system` takes neither.

    Args:
        size: Of each node.
        min_nodes: The pool never has fewer: one at least, for the operator.
        max_nodes: The pool never has more.
        zones: Zones of the region that the nodes are spread over.
        os_disk: Of each node.
    """

    size: Size = "Standard_D8s_v5"
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 4


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AksGpuNodes(GpuNodes):
    """Nodes with GPUs, made when a job needs them.

    Args:
        size: Of each node.
        gpus_per_node: `nvidia.com/gpu` of a node whose size is not in clusters/azure/sizes.yaml.
        min_nodes: The pool never has fewer; with 0 nothing is paid while no job needs one.
        max_nodes: The pool never has more.
        spot: Nodes that Azure may take back; without it, they stay as long as a job needs them.
        driver: Who installs NVIDIA's driver. `aks`: AKS, and Slipway the device plugin.
            `gpu-operator`: NVIDIA's GPU operator, which you install, and which brings the device
            plugin too; AKS installs no driver.
        labels: Besides Slipway's own.
        taints: That keep other pods off.
        zones: Zones of the region that the nodes are spread over.
        os_disk: Of each node.
    """

    KNOWN = GPUS
    OWN_LABEL = "slipway-pool"

    size: Size = "Standard_NC4as_T4_v3"
    min_nodes: Annotated[int, Field(ge=0, le=1000)] = 0
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 2
    spot: Spot | None = None
    driver: Literal["aks", "gpu-operator"] = "aks"
    zones: tuple[Zone, ...] = ()
    os_disk: OsDisk = OsDisk()

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of its nodes, that which AKS gives to spot nodes among them."""
        spot = dict([SPOT]) if self.spot is not None else {}
        return {self.OWN_LABEL: "gpu", **spot, **self.labels}

    @property
    def all_taints(self) -> tuple[NodeTaint, ...]:
        """The taints of its nodes, that which AKS gives to spot nodes among them.

        Declared here too, because what AKS adds would show as drift.
        """
        if self.spot is None:
            return self.taints
        return (*self.taints, NodeTaint(key=SPOT[0], value=SPOT[1]))


def gpus(settings: Settings) -> GpuPool | None:
    """Return the pool with GPUs as jobs have to know it; None without one."""
    if not settings.gpu:
        return None
    # The GPU operator brings its own device plugin; two would fight over the same GPUs.
    by_aks = settings.gpu.driver == "aks"
    return settings.gpu.pool(
        driver="AKS" if by_aks else "NVIDIA's GPU operator", device_plugin=by_aks
    )


def pools(settings: Settings) -> tuple[NodePool, ...]:
    """Return every pool: each node is paid for by the hour."""
    # With a pool for jobs, that of the system takes the cluster's own pods alone.
    found = [_pool("system", settings.system, settings.location, jobs=settings.cpu is None)]
    if settings.cpu is not None:
        found.append(_pool("cpu", settings.cpu, settings.location))
    if gpu := settings.gpu:
        pool = replace(_pool("gpu", gpu, settings.location), gpus=gpu.per_node)
        if gpu.spot is not None:
            price = gpu.spot.max_price
            pool = replace(pool, spot=True, dollars=None if price == -1 else Decimal(str(price)))
        found.append(pool)
    return tuple(found)


def _pool(
    name: str, pool: SystemPool | AksGpuNodes, location: str, *, jobs: bool = True
) -> NodePool:
    return NodePool(
        name=name,
        provider="azure",
        region=location,
        size=pool.size,
        min_nodes=pool.min_nodes,
        max_nodes=pool.max_nodes,
        cores=cores_for_pods(pool.size),
        takes_jobs=jobs,
    )
