"""The settings of an AKS cluster's node pools."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field
from pydantic.dataclasses import dataclass

from clusters.azure.facts import GPUS, bounds, cores, without_gpus
from clusters.azure.settings import DISTINCT, GpuNodes, Size
from clusters.nodes import Taint
from core.fields import CONFIG
from core.problem import Contradiction, contradiction, quote

_SPOT = Taint("kubernetes.azure.com/scalesetpriority", "spot")
"""https://learn.microsoft.com/azure/aks/spot-node-pool"""
_RESERVED = re.compile(r"(kubernetes\.azure\.com|([^/]+\.)?kubernetes\.io|slipway\.dev)/")
"""https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes"""
_MAX_PRICE = "-1, or a number above 0 with at most 5 decimals"
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

    KEY: ClassVar[str] = "system"
    per_node: ClassVar[int] = 0
    spot: ClassVar[None] = None

    size: Size = "Standard_D4s_v5"
    min_nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 3
    zones: Zones = ()
    os_disk: OsDisk = OsDisk()

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield what is wrong with the size and the bounds of the nodes."""
        # https://learn.microsoft.com/azure/aks/use-system-pools#system-and-user-node-pools
        count, wrong = cores(self.size), ""
        if self.size.startswith("Standard_B"):
            wrong = "is not allowed; AKS takes no size of the B series for system nodes"
        elif count is not None and count < 4:
            wrong = f"has {count} vCPUs; AKS takes system nodes of at least 4"
        if wrong and self.KEY == "system":
            yield contradiction(("system", "size"), f"{quote(self.size)} {wrong}")
        yield from bounds((self.KEY,), self.min_nodes, self.max_nodes)
        yield from without_gpus(self.KEY, self.size)


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class CpuPool(SystemPool):
    """Nodes for the operator and for jobs without GPUs, so that `system` takes neither.

    Args:
        min_nodes: The pool never has fewer: one at least, for the operator.
    """

    KEY = "cpu"

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
    def fallback(self) -> Self | None:
        """The regular nodes that take over from these; None where none do."""
        if self.spot is None or self.spot.fallback is None:
            return None
        own = asdict(self.spot.fallback).items()
        return replace(self, spot=None, **{key: value for key, value in own if value is not None})

    def contradictions(self) -> Iterator[Contradiction]:
        yield from super().contradictions()
        reserved = "is reserved; use a prefix of your own"
        for key in filter(_RESERVED.match, self.labels):
            yield contradiction(("gpu", "labels", key), reserved)
        for index, taint in enumerate(self.taints):
            if _RESERVED.match(taint.key):
                place = ("gpu", "taints", index, "key")
                yield contradiction(place, f"{quote(taint.key)} {reserved}")
        if (spot := self.spot) is None:
            return
        # https://learn.microsoft.com/azure/aks/spot-node-pool#limitations
        price = spot.max_price
        if price != -1 and (price <= 0 or round(price, 5) != price):
            text = f"{price:g} is not allowed; it takes {_MAX_PRICE}"
            yield contradiction(("gpu", "spot", "maxPrice"), text)
        # https://learn.microsoft.com/azure/virtual-machines/ephemeral-os-disks
        if self.os_disk.type == "Ephemeral" and spot.eviction_policy == "Deallocate":
            text = (
                '"Deallocate" goes with no osDisk of the type Ephemeral, which is lost with the '
                "machine; take Delete, or a Managed disk"
            )
            yield contradiction(("gpu", "spot", "evictionPolicy"), text, "gpu.osDisk")
        if (fallback := self.fallback) is None:
            return
        where = ("gpu", "spot", "fallback")
        yield from bounds(where, fallback.min_nodes, fallback.max_nodes)
        known, wanted = GPUS.get(self.size, self.gpus_per_node), GPUS.get(fallback.size)
        if fallback.size != self.size and known is not None and known != wanted:
            alike = ", ".join(size for size, gpus in GPUS.items() if gpus == known)
            yield contradiction(
                (*where, "size"),
                f"{quote(fallback.size)} is not allowed; replicas of a job may be on either, so a "
                f"node must have as many GPUs as one of {self.size}: {known}. Known to have as "
                f"many: {alike}",
                "gpu.size",
            )
