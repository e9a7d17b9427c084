"""The node pools of an AKS cluster: their settings, and what the cluster and jobs need of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import yaml
from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.autoscaler import NAMESPACE
from clusters.azure import GPUS, cores_for_pods, network
from clusters.azure.settings import DISTINCT, GpuNodes, Size
from clusters.pools import GpuPool, NodePool, Taint
from core.fields import CONFIG
from core.manifests import MANAGED_BY

if TYPE_CHECKING:
    from clusters.aks.settings import Settings
    from core.manifests import Manifest

_SPOT = Taint("kubernetes.azure.com/scalesetpriority", "spot")
"""https://learn.microsoft.com/azure/aks/spot-node-pool"""
_MAX_PRICE = "-1, or a number above 0 with at most 5 decimals"
GPU, GPU_FALLBACK = "gpu", "gpufallback"
"""Names of the pools with GPUs: AKS takes at most 12 of a-z and 0-9
(https://learn.microsoft.com/azure/aks/create-node-pools#limitations)."""
Zone = Annotated[str, Field(pattern="^[1-3]$", description='a zone of the region: "1", "2" or "3"')]
Zones = Annotated[tuple[Zone, ...], DISTINCT]


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
class Fallback:
    """Regular nodes that the autoscaler makes when Azure has no spot node to give.

    Besides what is set here they are as the spot nodes are.

    Args:
        size: Of each node, with as many GPUs; that of the spot nodes unless set.
        min_nodes: The pool never has fewer; with 0 nothing is paid while spot nodes can be had.
        max_nodes: The pool never has more; as many as there may be spot nodes unless set.
        zones: Zones of the region that the nodes are spread over; the spot nodes' unless set.
    """

    size: Size | None = None
    min_nodes: Annotated[int, Field(ge=0, le=1000)] = 0
    max_nodes: Annotated[int, Field(ge=1, le=1000)] | None = None
    zones: Zones | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Spot:
    """Nodes that Azure may take back at any time, for a lower price.

    Args:
        eviction_policy: What becomes of a node that is taken back. One that is deallocated goes on
            counting against the quota, and its disk is paid for.
        max_price: US dollars per hour and node above which it is taken back; -1 for never because
            of its price.
        fallback: Regular nodes for jobs when no spot node can be had; without it, they wait.
    """

    eviction_policy: Literal["Delete", "Deallocate"] = "Delete"
    max_price: Annotated[float, Field(ge=-1, allow_inf_nan=False, description=_MAX_PRICE)] = -1
    fallback: Fallback | None = None

    @property
    def dollars(self) -> Decimal | None:
        """What a node costs by the hour at most; None without such a limit."""
        return None if self.max_price == -1 else Decimal(str(self.max_price))


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SystemPool:
    """The nodes that the cluster's own pods run on, and without a pool `cpu` the operator's too.

    Args:
        size: Of each node.
        min_nodes: The pool never has fewer; AKS needs one at least.
        max_nodes: The pool never has more.
        zones: Zones of the region that the nodes are spread over.
        os_disk: Of each node.
    """

    per_node: ClassVar[int] = 0
    spot: ClassVar[None] = None

    size: Size = "Standard_D4s_v5"
    min_nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 3
    zones: Zones = ()
    os_disk: OsDisk = OsDisk()


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class CpuPool(SystemPool):
    """Nodes for the operator and for jobs without GPUs, so that `system` takes neither.

    Args:
        min_nodes: The pool never has fewer: one at least, for the operator.
    """

    size: Size = "Standard_D8s_v5"
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 4


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AksGpuNodes(GpuNodes):
    """Nodes with GPUs, made when a job needs them.

    Args:
        min_nodes: The pool never has fewer; with 0 nothing is paid while no job needs one.
        max_nodes: The pool never has more.
        spot: Nodes that Azure may take back; without it, they stay as long as a job needs them.
        driver: Who installs NVIDIA's driver. `aks`: AKS, and Slipway the device plugin.
            `gpu-operator`: NVIDIA's GPU operator, which you install, and which brings the device
            plugin too; AKS installs no driver.
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
    zones: Zones = ()
    os_disk: OsDisk = OsDisk()

    @property
    def given(self) -> tuple[Taint, ...]:
        return () if self.spot is None else (_SPOT,)

    @property
    def fallback(self) -> AksGpuNodes | None:
        """The regular nodes that take over from these; None where none do."""
        if self.spot is None or self.spot.fallback is None:
            return None
        own = asdict(self.spot.fallback).items()
        return replace(self, spot=None, **{key: value for key, value in own if value is not None})


def node_pools(settings: Settings) -> dict[str, SystemPool | AksGpuNodes]:
    """Return every pool by its name."""
    cpu = {} if settings.cpu is None else {"cpu": settings.cpu}
    return {"system": settings.system, **cpu, **gpu_pools(settings)}


def gpu_pools(settings: Settings) -> dict[str, AksGpuNodes]:
    """Return the pools with GPUs by their names, the one that is preferred first."""
    if not settings.gpu:
        return {}
    fallback = settings.gpu.fallback
    return {GPU: settings.gpu, **({} if fallback is None else {GPU_FALLBACK: fallback})}


def gpus(settings: Settings) -> GpuPool | None:
    """Return the nodes with GPUs as jobs have to know them; None without any."""
    if not settings.gpu:
        return None
    # The GPU operator brings its own device plugin; two would fight over the same GPUs.
    by_aks = settings.gpu.driver == "aks"
    driver = "AKS" if by_aks else "NVIDIA's GPU operator"
    pool = settings.gpu.pool(driver=driver, device_plugin=by_aks)
    if (fallback := settings.gpu.fallback) is None:
        return pool
    return replace(
        pool,
        min_nodes=settings.gpu.min_nodes + fallback.min_nodes,
        max_nodes=settings.gpu.max_nodes + fallback.max_nodes,
        # Those of all of its nodes: the spot nodes have a label and a taint more.
        labels=fallback.all_labels,
        fallback=True,
    )


def pools(settings: Settings) -> tuple[NodePool, ...]:
    """Return every pool: each node is paid for by the hour."""
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
            # With a pool for jobs, that of the system takes the cluster's own pods alone.
            takes_jobs=name != "system" or settings.cpu is None,
        )
        for name, pool in node_pools(settings).items()
    )


def priorities(names: Collection[str]) -> tuple[Manifest, ...]:
    """Return the ConfigMap by which the autoscaler prefers the first of several pools.

    The highest priority wins, of all pools whose names match one of its patterns. A pool that no
    pattern matches is not grown, and without the ConfigMap none is.
    https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md
    """
    if len(names) < 2:
        return ()
    first, *_ = names
    # AKS calls a pool's scale set aks-<pool>-<8 digits>-vmss.
    patterns = {20: [f"^aks-{first}-"], 10: [".*"]}
    name = "cluster-autoscaler-priority-expander"
    metadata = {"name": name, "namespace": NAMESPACE, "labels": dict(MANAGED_BY)}
    data = {"priorities": yaml.safe_dump(patterns, sort_keys=False)}
    return ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},)
