"""What is known of Azure's regions and of the sizes of its nodes: regions.yaml and sizes.yaml."""

import re
from collections.abc import Mapping
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path

import yaml

_REGIONS, _SIZES = (
    yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    for name in ("regions.yaml", "sizes.yaml")
)
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


def misspelt_region(name: str) -> str | None:
    """Return the region that a misspelt name most probably stands for; None of any other name.

    Azure gets new ones, so a name is not wrong for being unknown here.
    """
    if name in _REGIONS or _WHERE_IN.sub("", name) in {_WHERE_IN.sub("", it) for it in _REGIONS}:
        return None
    likest: str = max(_REGIONS, key=lambda known: SequenceMatcher(None, name, known).ratio())
    return likest if SequenceMatcher(None, name, likest).ratio() >= _ALIKE else None


def cores(size: str) -> int | None:
    """Return the cores of a node; None where neither sizes.yaml nor the size's name says it."""
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
