"""What changes from the inputs of last time to those of now, and what that takes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.handler import Change, compare
from scripts.offline.azure_recording.catalog import ResourceType

_INDEX = re.compile(r"\[\d+\]")


class NotChangeable(Exception):
    """The service refuses to change this, and azure-native doesn't know."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(
            f"Azure doesn't change {', '.join(paths)} of what is there (PropertyChangeNotAllowed); "
            "name it in the resource's replace_on_changes, or leave it as it was"
        )


def changes(kind: ResourceType, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return each property that differs, and whether the resource is made anew for it."""
    replaced = (*kind.replaced, *kind.parameters, "location")
    return [
        Change(found.path, found.kind, replace=_touches(found.path, replaced))
        for found in (*compare(old, new), *_gone(old, new))
    ]


def refuse(kind: ResourceType, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise for a change in place that the service refuses.

    Raises:
        NotChangeable: with every property that can't be changed.
    """
    flat = [
        leaf for key in sorted({*old, *new}) for leaf in _leaves(key, old.get(key), new.get(key))
    ]
    found = [path for path in flat if _touches(path, kind.refused)]
    if found:
        raise NotChangeable(found)


def _gone(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in sorted(old.keys() - new.keys()):
        yield Change(key, "delete")


def _leaves(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _leaves(f"{path}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and _of_maps(old) and _of_maps(new):
        # An item that is added or taken away is no change of another.
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from _leaves(f"{path}[{index}]", before, after)
    elif old != new:
        yield path


def _of_maps(items: Sequence[Any]) -> bool:
    return all(isinstance(item, Mapping) for item in items)


def _touches(path: str, those: Sequence[str]) -> bool:
    plain = _INDEX.sub("[*]", path)
    return any(plain == each or plain.startswith((f"{each}.", f"{each}[")) for each in those)
