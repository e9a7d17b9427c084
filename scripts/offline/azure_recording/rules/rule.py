"""What a service's documentation forbids though the SDK's types would let it through."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.values import UNKNOWN
from scripts.offline.azure_recording.shapes import Finding

Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A documented rule.

    Args:
        name: What its failing fixture in tests/azure is called.
        types: Of resources that it is about, as the SDK calls them, less `azure-native:`.
        source: Where the service says so.
        broken: Yields where inputs of such a resource break it. Values may be UNKNOWN, and then
            nothing can be said of them yet.
    """

    name: str
    types: tuple[str, ...]
    source: str
    broken: Callable[[Inputs], Iterator[Finding]]


def within(inputs: Inputs, *path: str) -> Any:
    """Return what is at `path` in `inputs`; None where there is nothing, or UNKNOWN."""
    found: Any = inputs
    for key in path:
        if found is UNKNOWN:
            break
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def listed(inputs: Inputs, *path: str) -> list[Any]:
    """Return the list at `path`; an empty one where there is none, or it isn't known yet."""
    found = within(inputs, *path)
    return found if isinstance(found, list) else []
