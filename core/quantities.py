"""Amounts of cores and bytes, as Kubernetes writes them."""

from decimal import Decimal

_UNITS: dict[str, int] = {
    **{unit: 2 ** (10 * power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
    **{unit: 10 ** (3 * power) for power, unit in enumerate(("k", "M", "G", "T"), 1)},
}


def cores(text: str) -> Decimal:
    """Return the cores of `2`, `0.5` or `500m`."""
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


def size(text: str) -> int:
    """Return the bytes of `512Mi` or `2G`."""
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * _UNITS[unit]


def mebibytes(amount: int) -> str:
    """Return an amount of bytes in Mi, rounded down, at least one."""
    return f"{max(1, amount // _UNITS['Mi'])}Mi"


def gibibytes(amount: int) -> str:
    """Return an amount of bytes in readable form, rounded down so as not to overstate it."""
    return f"{amount * 10 // _UNITS['Gi'] / 10:g} GiB"
