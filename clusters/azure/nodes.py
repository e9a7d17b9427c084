"""What the settings say of node pools."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusters.azure.fields import CONFIG, LabelKey, LabelValue, Size, Zone
from clusters.azure.sizes import GPUS

SPOT = ("kubernetes.azure.com/scalesetpriority", "spot")
"""The key and the value of the label and of the taint that AKS gives to spot nodes.

https://learn.microsoft.com/azure/aks/spot-node-pool
"""


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class OsDisk:
    """A node's disk, where images lie and what pods write.

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
    max_price: Annotated[
        float,
        Field(
            ge=-1,
            allow_inf_nan=False,
            description="-1, or a number above 0 with at most 5 decimals",
        ),
    ] = -1

    @property
    def limit(self) -> Decimal | None:
        """What a node may cost; None where there is no limit."""
        return None if self.max_price == -1 else Decimal(str(self.max_price))


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class NodeTaint:
    """What keeps pods that do not tolerate it off the nodes.

    Args:
        key: The taint's key.
        value: The taint's value.
        effect: What becomes of pods that do not tolerate it.
    """

    key: LabelKey
    value: LabelValue
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


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
        size: What one is.
        min_nodes: There are never fewer; AKS wants one at least.
        max_nodes: There are never more.
        zones: Zones of the region that they are spread over.
        os_disk: Each node's.
    """

    size: Size = "Standard_D4s_v5"
    min_nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 3
    zones: tuple[Zone, ...] = ()
    os_disk: OsDisk = OsDisk()


@dataclass(frozen=True, kw_only=True, config=_NEVER_SPOT)
class CpuPool:
    """Nodes for jobs without GPUs; with them the system pool takes no pods but the cluster's own.

    Args:
        size: What one is.
        min_nodes: There are never fewer: one at least, for the operator.
        max_nodes: There are never more.
        zones: Zones of the region that they are spread over.
        os_disk: Each node's.
    """

    size: Size = "Standard_D8s_v5"
    min_nodes: Annotated[int, Field(ge=1, le=1000)] = 1
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 4
    zones: tuple[Zone, ...] = ()
    os_disk: OsDisk = OsDisk()


@dataclass(frozen=True, kw_only=True, config=CONFIG)
class GpuNodes:
    """Nodes with GPUs, made when a job wants them.

    Args:
        size: What one is.
        gpus_per_node: `nvidia.com/gpu` of one; only for a size that `clusters.azure.sizes` has not.
        min_nodes: There are never fewer; with 0 nothing is paid while no job needs one.
        max_nodes: There are never more.
        spot: Nodes that Azure may take back; without, they are Slipway's as long as it wants them.
        driver: Who installs NVIDIA's driver. `aks`: AKS, and Slipway the device plugin.
            `gpu-operator`: NVIDIA's GPU operator, which brings the device plugin too, and which the
            person installs; AKS is told to install no driver.
        labels: Besides Slipway's own.
        taints: That keep other pods off.
        zones: Zones of the region that they are spread over.
        os_disk: Each node's.
    """

    size: Size = "Standard_NC4as_T4_v3"
    gpus_per_node: Annotated[int, Field(ge=1, le=16)] | None = None
    min_nodes: Annotated[int, Field(ge=0, le=1000)] = 0
    max_nodes: Annotated[int, Field(ge=1, le=1000)] = 2
    spot: Spot | None = None
    driver: Literal["aks", "gpu-operator"] = "aks"
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = (NodeTaint(key="sku", value="gpu"),)
    zones: tuple[Zone, ...] = ()
    os_disk: OsDisk = OsDisk()

    @property
    def per_node(self) -> int:
        """`nvidia.com/gpu` of one node."""
        return GPUS[self.size] if self.gpus_per_node is None else self.gpus_per_node

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of its nodes: Slipway's own, which no other nodes have, and the rest."""
        spot = dict([SPOT]) if self.spot is not None else {}
        return {"slipway-pool": "gpu", **spot, **self.labels}

    @property
    def all_taints(self) -> tuple[NodeTaint, ...]:
        """The taints of its nodes, that which AKS gives to spot nodes among them.

        Said by Slipway too, because what AKS adds would show as drift.
        """
        if self.spot is None:
            return self.taints
        return (*self.taints, NodeTaint(key=SPOT[0], value=SPOT[1]))
