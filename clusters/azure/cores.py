"""How many cores a node of a size has, as far as its name says so."""

import re
from decimal import Decimal

_NAMED = re.compile(r"^Standard_[A-Z]+([0-9]+)(?:-([0-9]+))?[a-z]*(?:_[A-Za-z0-9]+)*_v[3-9]$")
"""Family, cores, those of them that there are if not all, and features.

https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions

Older versions are left out: a Standard_D3_v2 has 4.
"""
_RESERVED = {1: 60, 2: 100, 4: 140, 8: 180, 16: 260, 32: 420, 64: 740}
"""Thousandths that AKS keeps for itself on a node with at least so many.

https://learn.microsoft.com/azure/aks/node-resource-reservations
"""


def cores(size: str) -> int | None:
    """Return the cores of a virtual machine; None where its name does not say it."""
    found = _NAMED.match(size)
    if found is None:
        return None
    most, fewer = found.groups()
    return int(most if fewer is None else fewer)


def for_pods(size: str) -> Decimal | None:
    """Return those of them that AKS does not keep for itself."""
    there = cores(size)
    if there is None:
        return None
    reserved = max((kept for least, kept in _RESERVED.items() if least <= there), default=0)
    return there - Decimal(reserved) / 1000
