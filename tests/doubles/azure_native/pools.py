"""Node pools with GPUs among the resources, of AKS and of AKS on Azure Local."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.azure.facts import GPUS, LOCAL_GPUS
from tests.doubles.azure_native.store import Record, Store

_ON_AKS, _GENERIC = "azure-native:containerservice:AgentPool", "azure-native:resources:Resource"
_SPOT = "kubernetes.azure.com/scalesetpriority"
"""The key of the label and the taint that AKS gives to spot nodes."""


@dataclass(frozen=True)
class Pool:
    """A node pool: the resource, and its properties by the names that both kinds share."""

    record: Record
    inputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """In its cluster."""
        return self.record.id.rpartition("/")[2]

    @property
    def gpus_per_node(self) -> int:
        """`nvidia.com/gpu` of one node; 0 for a size without GPUs."""
        size = str(self.inputs.get("vmSize"))
        return GPUS.get(size, LOCAL_GPUS.get(size, 0))

    @property
    def is_spot(self) -> bool:
        """Whether Azure may evict its nodes."""
        return self.inputs.get("scaleSetPriority") == "Spot"

    @property
    def labels(self) -> dict[str, str]:
        return (self.inputs.get("nodeLabels") or {}) | ({_SPOT: "spot"} if self.is_spot else {})

    @property
    def taints(self) -> list[dict[str, str]]:
        own = [f"{_SPOT}=spot:NoSchedule"] if self.is_spot else []
        texts = dict.fromkeys([*(self.inputs.get("nodeTaints") or ()), *own])
        parts = [re.split("[=:]", text) for text in texts]
        return [dict(zip(("key", "value", "effect"), each, strict=True)) for each in parts]

    @property
    def bounds(self) -> tuple[int, int]:
        """The fewest and the most nodes."""
        if not self.inputs.get("enableAutoScaling"):
            return self.count, self.count
        return int(self.inputs["minCount"]), int(self.inputs["maxCount"])

    @property
    def count(self) -> int:
        """The nodes that it has now."""
        return int(self.inputs.get("count") or 0)


def pools(store: Store) -> Iterator[Pool]:
    """Yield each pool of nodes with GPUs."""
    yield from filter(None, map(pool_of, store.all()))


def pool_of(record: Record | None) -> Pool | None:
    """Return the pool with GPUs that a resource is; None for anything else."""
    if record is None:
        return None
    if record.type == _ON_AKS:
        found = Pool(record, record.inputs)
    elif record.type == _GENERIC and record.inputs.get("resourceType") == "agentPools":
        found = Pool(record, record.inputs.get("properties") or {})
    else:
        return None
    return found if found.gpus_per_node else None


def pool_profiles(store: Store, cluster: Record) -> dict[str, Any]:
    """Return the property with all pools of an AKS cluster, also those of their own resources.

    Azure promises no order, and this is not the order in which they were declared.
    """
    if not cluster.type.endswith(":ManagedCluster"):
        return {}
    inside = f"{cluster.id}/agentPools/"
    others = [
        {**record.inputs, "name": record.id.removeprefix(inside)}
        for record in store.all()
        if record.id.startswith(inside)
    ]
    return {"agentPoolProfiles": [*others, *cluster.inputs.get("agentPoolProfiles", [])]}


def with_count(record: Record, nodes: int) -> Record:
    """Return a pool's resource with another number of nodes."""
    if record.type == _ON_AKS:
        return record.changed(count=nodes)
    return record.changed(properties={**record.inputs["properties"], "count": nodes})


def keep_count(before: Record, after: Record) -> Record:
    """Return `after` with the nodes of `before` where an autoscaler decides on them."""
    old, new = pool_of(before), pool_of(after)
    if old is None or new is None or not new.inputs.get("enableAutoScaling"):
        return after
    return with_count(after, old.count)
