"""Pulumi's property values as plain Python, and back.

Numbers travel as floats; whole ones come back as `int`, since that is what was written.
A value that a preview cannot know yet is `UNKNOWN`.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, cast

from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.runtime import rpc


class Unknown(Enum):
    """The type of `UNKNOWN`, a value that is not known before the resource exists."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown.UNKNOWN


def plain(value: PropertyValue) -> Any:
    """Return `value` as None, bool, int, float, str, list, dict or UNKNOWN.

    Raises:
        TypeError: for assets, archives and resource references, which no resource here takes.
    """
    inner = value.value
    # The SDK reads the engine's mark of an unknown value as a string, and cannot write Computed.
    if isinstance(inner, Computed) or inner == rpc.UNKNOWN:
        return UNKNOWN
    if isinstance(inner, float) and inner.is_integer():
        return int(inner)
    if inner is None or isinstance(inner, bool | int | float | str):
        return inner
    if isinstance(inner, Mapping):
        return plain_map(inner)
    if isinstance(inner, Sequence):
        return [plain(item) for item in cast("Sequence[PropertyValue]", inner)]
    raise TypeError(f"a property of type {value.type.value} is not supported here")


def plain_map(values: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return `values` as a dict of plain Python values."""
    return {key: plain(value) for key, value in values.items()}


def wrap(value: Any, *, secret: bool = False) -> PropertyValue:
    """Return plain Python `value` as a property value, the reverse of `plain`."""
    if value is UNKNOWN:
        return PropertyValue(rpc.UNKNOWN, is_secret=secret)
    if isinstance(value, int) and not isinstance(value, bool):
        return PropertyValue(float(value), is_secret=secret)
    if isinstance(value, Mapping):
        return PropertyValue(wrap_map(value), is_secret=secret)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return PropertyValue([wrap(item) for item in value], is_secret=secret)
    return PropertyValue(value, is_secret=secret)


def wrap_map(
    values: Mapping[str, Any], secrets: frozenset[str] = frozenset()
) -> dict[str, PropertyValue]:
    """Return `values` as property values; those named in `secrets` are marked secret."""
    return {key: wrap(value, secret=key in secrets) for key, value in values.items()}
