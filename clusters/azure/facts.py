"""What is known of Azure: its sizes and names, by the YAML files here, and what it refuses."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

from core.manifests import read
from core.problem import Contradiction, contradiction, dotted, quote
from core.problem import Path as Place
from images.build.releases import Card

_SIZES = read(Path(__file__).with_name("sizes.yaml"))
_RESERVED = read(Path(__file__).with_name("names.yaml"))["reserved"]
GPUS: Mapping[str, int] = _SIZES["aks"]
"""`nvidia.com/gpu` of an AKS node, by its size."""
_LOCAL: Mapping[str, Mapping[str, int]] = _SIZES["azure-stack"]
LOCAL_GPUS: Mapping[str, int] = {size: node["gpus"] for size, node in _LOCAL.items()}
"""The same of AKS on Azure Local."""
_CORES = re.compile(r"^Standard_[A-Z]+([0-9]+)(?:-([0-9]+))?[a-z]*(?:_[A-Za-z0-9]+)*_v[3-9]$")
"""Family, cores, those that a constrained size offers, features; older versions do not fit
(https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions)."""


def cores(size: str) -> Decimal | None:
    """Return the cores of a node; None where neither sizes.yaml nor the size's name has it."""
    if size in _LOCAL:
        return Decimal(_LOCAL[size]["cores"])
    found = _CORES.match(size)
    return None if found is None else Decimal(found[2] or found[1])


def cores_for_pods(size: str) -> Decimal | None:
    """Return the cores of an AKS node that AKS does not reserve for itself."""
    if (every := cores(size)) is None:
        return None
    reserved = [kept for least, kept in _SIZES["reserved"].items() if least <= every]
    return every - Decimal(max(reserved, default=0)) / 1000


def cards(size: str) -> tuple[Card, ...]:
    """Return the kind of a size's GPUs, with Azure's driver; empty where it is not known."""
    known = (of for pattern, of in _SIZES["cards"].items() if re.search(pattern, size))
    return tuple(Card(**of) for of in known)


def unfit(size: str) -> str | None:
    """Return why nodes of a size can't have jobs with GPUs; None where they can."""
    reasons = (why for pattern, why in _SIZES["unfit"].items() if re.search(pattern, size))
    return next(reasons, None)


def network(size: str) -> str:
    """Describe what a node's network lacks, for estimates; empty where that is nothing."""
    # https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-family
    if not size.startswith("Standard_ND"):
        return ""
    ethernet, infiniband = _SIZES["infiniband"].get(size, (None, None))
    if ethernet is None:
        return "TCP only, because its InfiniBand is not set up"
    return f"TCP only: at most {ethernet} Gbit/s a node, not InfiniBand's {infiniband:,}"


def is_reserved(name: str) -> bool:
    """Return whether Azure refuses the name for what has an address in DNS."""
    return any(re.fullmatch(each, name, re.IGNORECASE) for each in _RESERVED)


def reserved(place: Place, name: str | None) -> Iterator[Contradiction]:
    """Yield a name of something with an address in DNS that Azure keeps for itself."""
    if name is not None and is_reserved(name):
        yield contradiction(place, f"{quote(name)} is, or contains, a name that Azure reserves")


def without_gpus(key: str, size: str) -> Iterator[Contradiction]:
    """Yield a size with GPUs where none are used."""
    if size.startswith("Standard_N"):  # as every size with GPUs, and no other
        yield contradiction((key, "size"), f"{quote(size)} has GPUs; those belong into gpu")


def bounds(pool: Place, min_nodes: int, max_nodes: int) -> Iterator[Contradiction]:
    """Yield a pool, at that path, that has more nodes at least than at most."""
    if min_nodes > max_nodes:
        text = f"{min_nodes} is more than maxNodes, {max_nodes}"
        yield contradiction((*pool, "minNodes"), text, dotted((*pool, "maxNodes")))
