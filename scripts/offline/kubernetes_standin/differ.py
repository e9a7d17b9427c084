"""What changes from the inputs of last time to those of now, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.immutable import Path, touches
from scripts.offline.kubernetes_standin.paths import Steps

_MISSING = object()


@dataclass(frozen=True)
class FieldChange:
    """One field that appears, changes or disappears."""

    path: Steps
    kind: Literal["add", "update", "delete"]
    replace: bool


def changes(
    old: Mapping[str, Any], new: Mapping[str, Any], fixed: Sequence[Path]
) -> list[FieldChange]:
    """Return the fields in which `new` differs from `old`; one in `fixed` replaces the object.

    Inputs are compared with inputs, never with what the server made of them: so a quantity in
    another spelling, a default, or an empty map is no change.
    """
    return list(_compare(old, new, (), fixed))


def _compare(old: Any, new: Any, path: Steps, fixed: Sequence[Path]) -> Iterator[FieldChange]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _compare(old.get(key, _MISSING), new.get(key, _MISSING), (*path, key), fixed)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _compare(_at(old, index), _at(new, index), (*path, index), fixed)
    elif not _same(old, new):
        kind: Literal["add", "update", "delete"] = "update"
        if old is _MISSING:
            kind = "add"
        elif new is _MISSING:
            kind = "delete"
        yield FieldChange(path, kind, touches(path, _known(old), _known(new), fixed))


def _at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else _MISSING


def _known(value: Any) -> Any:
    return None if value is _MISSING else value


def _same(old: Any, new: Any) -> bool:
    # True == 1 in Python, but not in a manifest.
    return new is not UNKNOWN and old == new and isinstance(old, bool) == isinstance(new, bool)
