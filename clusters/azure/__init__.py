"""What is known of Azure: its regions and sizes, by the YAML files here, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from core.problem import Contradiction, dotted, quote
from core.problem import Path as Place

if TYPE_CHECKING:
    from clusters.azure.settings import AzureSettings, GpuNodes

_REGIONS, _SIZES = (
    yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("regions.yaml", "sizes.yaml")
)
_RESERVED_NAMES = re.compile(
    "access|app_(browsers|code|data|globalresources|localresources|themes|webreferences)|azure|bing"
    "|bizspark|biztalk|cortana|directx|dotnet|dynamics|excel|exchange|forefront|groove|hololens"
    "|hyperv|kinect|lync|msdn|o365|office|office365|onedrive|onenote|outlook|powerpoint|sharepoint"
    "|skype|visio|visualstudio|web.config|xbox|login.*|.*(microsoft|windows).*",
    re.IGNORECASE,
)
"""What Azure refuses as a name of what has an address in DNS.

https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/error-reserved-resource-name
"""
GPUS: Mapping[str, int] = _SIZES["aks"]
"""`nvidia.com/gpu` of an AKS node, by its size."""
LOCAL_GPUS: Mapping[str, int] = {size: node["gpus"] for size, node in _SIZES["azure-stack"].items()}
"""The same of AKS on Azure Local."""
_LOCAL_CORES: Mapping[str, int] = {
    size: node["cores"] for size, node in _SIZES["azure-stack"].items()
}
PARTIAL = frozenset(_SIZES["partial"])
"""Sizes with a part of a GPU."""
_CORES = re.compile(r"^Standard_[A-Z]+([0-9]+)(?:-([0-9]+))?[a-z]*(?:_[A-Za-z0-9]+)*_v[3-9]$")
"""Family, cores, those of them that a constrained size offers, and features.

https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions

Older versions are left out: a Standard_D3_v2 has 4.
"""
_RESERVED = {1: 60, 2: 100, 4: 140, 8: 180, 16: 260, 32: 420, 64: 740}
"""Thousandths of a core that AKS reserves on a node with at least so many cores.

https://learn.microsoft.com/azure/aks/node-resource-reservations
"""
_WHERE_IN = re.compile("north|south|east|west|central|[0-9]+")
"""What distinguishes the regions of one country: a new one may have any of these."""
_ALIKE = 0.9
_ACCELERATED = "Standard_N"
"""Begins every size with GPUs, and no other.

https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions
"""
_NOT_NVIDIA = re.compile(r"^Standard_(NG|NP)|_(MI[0-9]+X|V710)_|^Standard_NV[0-9]+as_v4$")
"""Sizes with GPUs of AMD, or with FPGAs: articles/virtual-machines/sizes/gpu-accelerated and
fpga-accelerated in https://github.com/MicrosoftDocs/azure-compute-docs."""
_MOST_TAGS = 50
"""https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations"""


def misspelt_region(name: str) -> str | None:
    """Return the region that a misspelt name most probably stands for; None of any other name.

    Azure gets new ones, so a name is not wrong for being unknown here.
    """
    if name in _REGIONS or _WHERE_IN.sub("", name) in {_WHERE_IN.sub("", it) for it in _REGIONS}:
        return None
    likest: str = max(_REGIONS, key=lambda known: SequenceMatcher(None, name, known).ratio())
    return likest if SequenceMatcher(None, name, likest).ratio() >= _ALIKE else None


def cores(size: str) -> int | None:
    """Return the cores of a node; None where neither sizes.yaml nor the size's name has it."""
    if size in _LOCAL_CORES:
        return _LOCAL_CORES[size]
    if (found := _CORES.match(size)) is None:
        return None
    most, fewer = found.groups()
    return int(most if fewer is None else fewer)


def cores_for_pods(size: str) -> Decimal | None:
    """Return the cores of an AKS node that AKS does not reserve for itself."""
    if (every := cores(size)) is None:
        return None
    reserved = max((kept for least, kept in _RESERVED.items() if least <= every), default=0)
    return every - Decimal(reserved) / 1000


def contradiction(path: Place, text: str, *others: str) -> Contradiction:
    """Return what is wrong at a path, which depends on that value and on those at `others`."""
    return Contradiction(path, text, frozenset({dotted(path), *others}))


def region(name: str, *others: str) -> Iterator[Contradiction]:
    """Yield a misspelt region, where the values at `others` let it be one of Azure's."""
    if meant := misspelt_region(name):
        text = f"{quote(name)} is no region of Azure; did you mean {meant}?"
        yield contradiction(("location",), text, *others)


def tags(settings: AzureSettings) -> Iterator[Contradiction]:
    """Yield more tags, Slipway's own among them, than Azure puts on one resource."""
    count = len(settings.all_tags)
    if count > _MOST_TAGS:
        text = f"makes {count} tags with Slipway's own; Azure takes at most {_MOST_TAGS}"
        yield contradiction(("tags",), text)


def is_reserved(name: str) -> bool:
    """Return whether Azure refuses the name for what has an address in DNS."""
    return _RESERVED_NAMES.fullmatch(name) is not None


def reserved(place: Place, name: str | None) -> Iterator[Contradiction]:
    """Yield a name of something with an address in DNS that Azure keeps for itself."""
    if name is not None and is_reserved(name):
        yield contradiction(place, f"{quote(name)} is, or contains, a name that Azure reserves")


def without_gpus(key: str, size: str) -> Iterator[Contradiction]:
    """Yield a size with GPUs where none are used."""
    if size.startswith(_ACCELERATED):
        yield contradiction((key, "size"), f"{quote(size)} has GPUs; those belong into gpu")


def gpu_nodes(gpu: GpuNodes) -> Iterator[Contradiction]:
    """Yield what is wrong with the size, the bounds and the taints of nodes with GPUs."""
    size, known = gpu.size, gpu.KNOWN.get(gpu.size)
    if not size.startswith(_ACCELERATED):
        text = f"{quote(size)} has no GPUs; take a size that begins with {_ACCELERATED}, or no gpu"
        yield contradiction(("gpu", "size"), text)
    elif _NOT_NVIDIA.search(size):
        text = f"{quote(size)} has no GPUs of NVIDIA's, which jobs need"
        yield contradiction(("gpu", "size"), text)
    elif size in PARTIAL:
        text = f"{quote(size)} has a part of a GPU; take a size with whole ones"
        yield contradiction(("gpu", "size"), text)
    elif known is None and gpu.gpus_per_node is None:
        text = f"is missing; how many GPUs a node of size {quote(size)} has is not known. "
        sizes = f"Of these it is: {', '.join(gpu.KNOWN)}"
        yield contradiction(("gpu", "gpusPerNode"), text + sizes, "gpu.size")
    elif known is not None and gpu.gpus_per_node not in {None, known}:
        text = f"{gpu.gpus_per_node} is not allowed; a node of size {size} has {known}"
        yield contradiction(("gpu", "gpusPerNode"), text, "gpu.size")
    yield from bounds("gpu", gpu.min_nodes, gpu.max_nodes)
    if not any(taint.effect in {"NoSchedule", "NoExecute"} for taint in gpu.taints):
        yield contradiction(
            ("gpu", "taints"),
            "need one with the effect NoSchedule or NoExecute: else pods without GPUs would hold "
            "nodes that are paid for",
        )
    # Kubernetes has one for each key and effect.
    yield from repeated(("gpu", "taints"), [(each.key, each.effect) for each in gpu.taints])


def bounds(pool: str, min_nodes: int, max_nodes: int) -> Iterator[Contradiction]:
    """Yield a pool that has more nodes at least than at most."""
    if min_nodes > max_nodes:
        text = f"{min_nodes} is more than maxNodes, {max_nodes}"
        yield contradiction((pool, "minNodes"), text, f"{pool}.maxNodes")


def repeated(path: Place, values: Sequence[Any]) -> Iterator[Contradiction]:
    """Yield each item of a list that is in it before."""
    for index, value in enumerate(values):
        if value in values[:index]:
            before = f"{path[-1]}[{values.index(value)}]"
            yield contradiction((*path, index), f"is the same as {before}; leave one out")
