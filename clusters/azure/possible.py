"""What Azure can't have, of settings that look like others: for every kind of cluster on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusters.azure.regions import misspelt
from core.problem import Contradiction, Path, dotted
from core.text import quote

if TYPE_CHECKING:
    from clusters.azure.nodes import GpuNodes, NodeTaint

_ACCELERATED = "Standard_N"
"""Begins every size with GPUs, and no other.

https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions
"""
_NOT_NVIDIA = re.compile(r"^Standard_(NG|NP)|_(MI[0-9]+X|V710)_|^Standard_NV[0-9]+as_v4$")
"""Sizes with GPUs of AMD, or with FPGAs: articles/virtual-machines/sizes/gpu-accelerated and
fpga-accelerated in https://github.com/MicrosoftDocs/azure-compute-docs."""

_MOST_TAGS = 50
"""https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations"""


def has_accelerators(size: str) -> bool:
    """Return whether a size is one of those with GPUs."""
    return size.startswith(_ACCELERATED)


def region(name: str, *others: str) -> Iterator[Contradiction]:
    """Yield a region that is misspelt, where the other settings let it be one of Azure's."""
    if meant := misspelt(name):
        text = f"{quote(name)} is no region of Azure; did you mean {meant}?"
        yield of(("location",), text, *others)


def without_gpus(key: str, size: str) -> Iterator[Contradiction]:
    """Yield a size with GPUs where none are used."""
    if has_accelerators(size):
        yield of((key, "size"), f"{quote(size)} has GPUs; those belong into gpu")


def with_gpus(size: str) -> Iterator[Contradiction]:
    """Yield a size for nodes with GPUs that has none of NVIDIA's."""
    if not has_accelerators(size):
        text = f"{quote(size)} has no GPUs; take a size that begins with {_ACCELERATED}, or no gpu"
        yield of(("gpu", "size"), text)
    elif _NOT_NVIDIA.search(size):
        yield of(("gpu", "size"), f"{quote(size)} has no GPUs of NVIDIA's, which jobs need")


def kept_off(taints: Sequence[NodeTaint]) -> Iterator[Contradiction]:
    """Yield taints that let every pod on the nodes with GPUs, or that are not told apart."""
    if not any(taint.effect in {"NoSchedule", "NoExecute"} for taint in taints):
        yield of(
            ("gpu", "taints"),
            "need one with the effect NoSchedule or NoExecute: else pods without GPUs would hold "
            "nodes that are paid for",
        )
    # Kubernetes has one for each key and effect.
    yield from repeated(("gpu", "taints"), [(each.key, each.effect) for each in taints])


def tags(every: Mapping[str, str]) -> Iterator[Contradiction]:
    """Yield more tags, Slipway's own among them, than Azure puts on one resource."""
    if len(every) > _MOST_TAGS:
        text = f"makes {len(every)} tags with Slipway's own; Azure takes at most {_MOST_TAGS}"
        yield of(("tags",), text)


def repeated(path: Path, values: Sequence[Any]) -> Iterator[Contradiction]:
    """Yield each item of a list that is in it before."""
    for index, value in enumerate(values):
        if value in values[:index]:
            before = f"{path[-1]}[{values.index(value)}]"
            yield of((*path, index), f"is the same as {before}; leave one out")


def disk(gpu: GpuNodes) -> Iterator[Contradiction]:
    """Yield a disk that goes with the machine under nodes that are to keep theirs.

    https://learn.microsoft.com/azure/virtual-machines/ephemeral-os-disks
    """
    spot = gpu.spot
    if spot is None or gpu.os_disk.type != "Ephemeral" or spot.eviction_policy == "Delete":
        return
    text = (
        '"Deallocate" goes with no osDisk of the type Ephemeral, which is lost with the machine; '
        "take Delete, or a Managed disk"
    )
    yield of(("gpu", "spot", "evictionPolicy"), text, "gpu.osDisk")


def of(path: Path, text: str, *others: str) -> Contradiction:
    """Return what is wrong at a path, and rests on what is there and on the places of `others`."""
    return Contradiction(path, text, frozenset({dotted(path), *others}))
