"""Recorded node pools with GPUs, of AKS and of AKS on Azure Local."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.azure import GPUS, LOCAL_GPUS
from scripts.offline.azure_recording.recording import Record, Recording, changed

_ON_AKS, _GENERIC = "azure-native:containerservice:AgentPool", "azure-native:resources:Resource"


@dataclass(frozen=True)
class Pool:
    """A pool of GPU nodes.

    Args:
        record: Where it is recorded.
        inputs: What the pool was asked to be, in the words that both kinds of pool share.
    """

    record: Record
    inputs: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.record.id.rpartition("/")[2]

    @property
    def per_node(self) -> int:
        """`nvidia.com/gpu` of one node; 0 of one without GPUs."""
        size = str(self.inputs.get("vmSize"))
        return GPUS.get(size, LOCAL_GPUS.get(size, 0))

    @property
    def labels(self) -> dict[str, str]:
        """Of its nodes; AKS gives spot nodes one of its own."""
        own = {"kubernetes.azure.com/scalesetpriority": "spot"} if self.is_spot else {}
        return {**(self.inputs.get("nodeLabels") or {}), **own}

    @property
    def taints(self) -> list[dict[str, str]]:
        """Of its nodes; AKS gives spot nodes one of its own."""
        own = ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"] if self.is_spot else []
        return [
            _taint(text) for text in dict.fromkeys([*(self.inputs.get("nodeTaints") or ()), *own])
        ]

    @property
    def is_spot(self) -> bool:
        """Whether its nodes may be taken back."""
        return self.inputs.get("scaleSetPriority") == "Spot"

    @property
    def bounds(self) -> tuple[int, int]:
        """How many nodes there are at least and at most."""
        count = int(self.inputs.get("count") or 0)
        if not self.inputs.get("enableAutoScaling"):
            return count, count
        return int(self.inputs["minCount"]), int(self.inputs["maxCount"])

    @property
    def count(self) -> int:
        """How many nodes it has now."""
        return int(self.inputs.get("count") or 0)


def pools(recording: Recording) -> Iterator[Pool]:
    """Yield each recorded pool of GPU nodes."""
    for record in recording.all():
        pool = pool_of(record)
        if pool is not None and pool.per_node:
            yield pool


def pool_of(record: Record) -> Pool | None:
    """Return the pool that a record is of; None when it is of something else."""
    if record.type == _ON_AKS:
        return Pool(record, record.inputs)
    if record.type == _GENERIC and record.inputs.get("resourceType") == "agentPools":
        return Pool(record, record.inputs.get("properties") or {})
    return None


def with_count(record: Record, nodes: int) -> Record:
    """Return a pool's record with so many nodes."""
    if record.type == _ON_AKS:
        return changed(record, {"count": nodes})
    return changed(record, {"properties": {**record.inputs["properties"], "count": nodes}})


def keeping_count(before: Record | None, after: Record) -> Record:
    """Return `after` with as many nodes as there are, where that is an autoscaler's business."""
    old, new = (None if before is None else pool_of(before)), pool_of(after)
    if old is None or new is None or not new.inputs.get("enableAutoScaling"):
        return after
    return with_count(after, old.count)


def _taint(text: str) -> dict[str, str]:
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    return {"key": key, "value": value, "effect": effect}
