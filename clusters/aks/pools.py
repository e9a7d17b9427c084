"""The settings of an AKS cluster's node pools."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from clusters.azure.facts import GPUS, bounds, cores, without_gpus
from clusters.azure.settings import DISTINCT, GpuNodes, Size
from clusters.nodes import Taint
from core.fields import CONFIG, number
from core.problem import Contradiction, contradiction, quote

_SPOT = Taint("kubernetes.azure.com/scalesetpriority", "spot")
"""The taint that AKS sets on spot nodes: https://learn.microsoft.com/azure/aks/spot-node-pool"""
_RESERVED = re.compile(r"(kubernetes\.azure\.com|([^/]+\.)?kubernetes\.io|slipway\.dev)/")
"""Matches reserved label keys: https://learn.microsoft.com/azure/aks/use-labels#reserved-prefixes"""
_MAX_PRICE = "-1, or a number above 0 with at most 5 decimal places"
_PRICE = Field(ge=-1, allow_inf_nan=False, description=_MAX_PRICE)
Zone = Annotated[str, Field(pattern="^[1-3]$", description='a zone of the region: "1", "2" or "3"')]
Zones = Annotated[tuple[Zone, ...], DISTINCT]


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class OsDisk:
    """A node's disk, for images and pods' files.

    Args:
        type: An Ephemeral disk is on the host: faster, free of charge, and no larger than the VM's
            cache or temporary disk. A Managed disk is separate and billed extra.
        gib: Size in GiB; the CUDA image alone takes 10 GiB.
    """

    type: Literal["Managed", "Ephemeral"] = "Managed"
    gib: Annotated[int, Field(ge=30, le=2048)] = 128


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Fallback:
    """Regular nodes that the autoscaler creates if Azure has no spot nodes available.

    All other settings are the same as for the spot nodes.

    Args:
        size: Size of each node, with as many GPUs as a spot node; by default the spot nodes' size.
        min_nodes: Minimum number of nodes; 0 costs nothing while spot nodes are available.
        max_nodes: Maximum number of nodes; by default the same as for the spot nodes.
        zones: Availability zones to spread the nodes over; by default the spot nodes' zones.
    """

    size: Size | None = None
    min_nodes: Annotated[int, Field(ge=0, le=1000)] = 0
    max_nodes: Annotated[int, Field(ge=1, le=1000)] | None = None
    zones: Zones | None = None


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class Spot:
    """Spot nodes, which cost less and may be evicted by Azure at any time.

    Args:
        eviction_policy: Delete an evicted node, or deallocate it. A deallocated node still counts
            against the quota, and its disk is billed.
        max_price: Price in US dollars per node per hour above which a node is evicted; -1 to never
            evict nodes because of the price.
        fallback: Regular nodes for jobs if no spot node is available; if not set, the jobs wait.
    """

    eviction_policy: Literal["Delete", "Deallocate"] = "Delete"
    max_price: Annotated[float, _PRICE, BeforeValidator(number)] = -1
    fallback: Fallback | None = None

    @property
    def dollars(self) -> Decimal | None:
        """The maximum price of a node, in US dollars per hour, or None if there is no limit."""
        return None if self.max_price == -1 else Decimal(str(self.max_price))


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class SystemPool:
    """Nodes for the cluster's own pods and, if there is no pool `cpu`, for the operator and jobs.

    Args:
        size: Size of each node.
        min_nodes: Minimum number of nodes; AKS requires at least one.
        max_nodes: Maximum number of nodes.
        zones: Availability zones to spread the nodes over.
        os_disk: Disk of each node.
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
        """Yield problems with the nodes' size and the minimum and maximum number of nodes."""
        # https://learn.microsoft.com/azure/aks/use-system-pools#system-and-user-node-pools
        count, wrong = cores(self.size), ""
        if self.size.startswith("Standard_B"):
            wrong = "is not allowed; AKS does not accept B-series sizes for system nodes"
        elif count is not None and count < 4:
            wrong = f"has {count} vCPUs; AKS requires at least 4 for system nodes"
        if wrong and self.KEY == "system":
            yield contradiction(("system", "size"), f"{quote(self.size)} {wrong}")
        yield from bounds((self.KEY,), self.min_nodes, self.max_nodes)
        yield from without_gpus(self.KEY, self.size)


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class CpuPool(SystemPool):
    """Nodes for the operator and for jobs without GPUs, instead of the pool `system`.

    Args:
        min_nodes: Minimum number of nodes; the operator needs at least one.
    """

    KEY = "cpu"

    size: Size = "Standard_D8s_v5"
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 4


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class AksGpuNodes(GpuNodes):
    """Nodes with GPUs, created when a job needs them.

    Args:
        min_nodes: Minimum number of nodes; 0 costs nothing while no job needs a node.
        max_nodes: Maximum number of nodes.
        spot: Use spot nodes, which Azure may evict; by default the nodes are regular ones.
        driver: Installer of NVIDIA's driver. `aks`: AKS installs the driver, and Slipway the device
            plugin. `gpu-operator`: NVIDIA's GPU operator, which you install, installs both the
            driver and the device plugin.
        zones: Availability zones to spread the nodes over.
        os_disk: Disk of each node.
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
    def azure_taints(self) -> tuple[Taint, ...]:
        return () if self.spot is None else (_SPOT,)

    @property
    def fallback(self) -> Self | None:
        """The regular nodes that replace unavailable spot nodes, or None if there are none."""
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
            text = f"{price:g} is not allowed; it must be {_MAX_PRICE}"
            yield contradiction(("gpu", "spot", "maxPrice"), text)
        # https://learn.microsoft.com/azure/virtual-machines/ephemeral-os-disks
        if self.os_disk.type == "Ephemeral" and spot.eviction_policy == "Deallocate":
            text = (
                '"Deallocate" does not work with an osDisk of type Ephemeral, which is lost '
                "with the machine; use Delete, or a Managed disk"
            )
            yield contradiction(("gpu", "spot", "evictionPolicy"), text, "gpu.osDisk")
        if (fallback := self.fallback) is None:
            return
        where = ("gpu", "spot", "fallback")
        yield from bounds(where, fallback.min_nodes, fallback.max_nodes)
        count, other = GPUS.get(self.size, self.gpus_per_node), GPUS.get(fallback.size)
        if fallback.size != self.size and count is not None and count != other:
            alike = ", ".join(size for size, gpus in GPUS.items() if gpus == count)
            yield contradiction(
                (*where, "size"),
                f"{quote(fallback.size)} is not allowed; a job's replicas can run on either pool, "
                f"so the fallback nodes must have as many GPUs as {self.size}: {count}. Known "
                f"sizes with that many: {alike}",
                "gpu.size",
            )
