"""Facts about Azure VM sizes and names, from YAML files in this folder, and checks of settings."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

from core.manifests import read
from core.problem import Contradiction, contradiction, dotted, quote
from core.problem import Path as Place
from images.build.releases import Card

_SIZES = read(Path(__file__).with_name("sizes.yaml"))
_RESERVED = read(Path(__file__).with_name("names.yaml"))["reserved"]
READ: date = _SIZES["read"]
"""The date on which sizes.yaml was last compared with its sources."""
GPUS: Mapping[str, int] = _SIZES["aks"]
"""The number of `nvidia.com/gpu` per AKS node, by VM size."""
_LOCAL: Mapping[str, Mapping[str, int]] = _SIZES["azure-stack"]
LOCAL_GPUS: Mapping[str, int] = {size: node["gpus"] for size, node in _LOCAL.items()}
"""The number of `nvidia.com/gpu` per node in AKS on Azure Local, by VM size."""
_CORES = re.compile(r"^Standard_[A-Z]+([0-9]+)(?:-([0-9]+))?[a-z]*(?:_[A-Za-z0-9]+)*_v[3-9]$")
"""Matches a size's family, cores, constrained cores and features, from version 3 on
(https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions)."""


def cores(size: str) -> Decimal | None:
    """Return a node's cores, from sizes.yaml or from the size's name, or None if unknown."""
    if size in _LOCAL:
        return Decimal(_LOCAL[size]["cores"])
    match = _CORES.match(size)
    return None if match is None else Decimal(match[2] or match[1])


def cores_for_pods(size: str) -> Decimal | None:
    """Return the cores of an AKS node minus those that AKS reserves, or None if unknown."""
    if (every := cores(size)) is None:
        return None
    reserved = [kept for least, kept in _SIZES["reserved"].items() if least <= every]
    return every - Decimal(max(reserved, default=0)) / 1000


def cards(size: str) -> tuple[Card, ...]:
    """Return the GPU models in a VM size, with their driver's limits; empty if unknown."""
    matches = (card for pattern, card in _SIZES["cards"].items() if re.search(pattern, size))
    return tuple(Card(**card) for card in matches)


def unfit(size: str) -> str | None:
    """Return why nodes of this size can't run jobs with GPUs, or None if they can."""
    return next((why for pattern, why in _SIZES["unfit"].items() if re.search(pattern, size)), None)


def network(size: str) -> str:
    """Describe a node's network limits, for cost estimates; empty if none are known."""
    # https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-family
    if not size.startswith("Standard_ND"):
        return ""
    ethernet, infiniband = _SIZES["infiniband"].get(size, (None, None))
    if ethernet is None:
        return "TCP only, because InfiniBand is not set up"
    return f"TCP only: at most {ethernet} Gbit/s per node, not {infiniband:,} as with InfiniBand"


def is_reserved(name: str) -> bool:
    """Return whether Azure rejects the name for resources that have a DNS name."""
    return any(re.fullmatch(each, name, re.IGNORECASE) for each in _RESERVED)


def reserved(place: Place, name: str | None) -> Iterator[Contradiction]:
    """Yield a contradiction if Azure rejects the name for a resource that has a DNS name."""
    if name is not None and is_reserved(name):
        yield contradiction(
            place, f"{quote(name)} is or contains a name that Azure reserves; choose another"
        )


def without_gpus(key: str, size: str) -> Iterator[Contradiction]:
    """Yield a contradiction if a pool for pods without GPUs has a size with GPUs."""
    if size.startswith("Standard_N"):  # all sizes with GPUs, and no others
        yield contradiction((key, "size"), f"{quote(size)} has GPUs; set it in `gpu` instead")


def bounds(pool: Place, min_nodes: int, max_nodes: int) -> Iterator[Contradiction]:
    """Yield a contradiction if a pool's minimum number of nodes is above its maximum."""
    if min_nodes > max_nodes:
        text = f"{min_nodes} is more than maxNodes ({max_nodes})"
        yield contradiction((*pool, "minNodes"), text, dotted((*pool, "maxNodes")))
