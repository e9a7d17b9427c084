"""Diff: which fields change from the inputs of last time to those of now."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from core.handler import UNKNOWN, Change
from scripts.offline.kubernetes_standin.kinds import Path

_MISSING = object()
_NEEDS_QUOTES = re.compile(r'[.\[\]"]')

Steps = tuple[str | int, ...]


def changes(
    old: Mapping[str, Any], new: Mapping[str, Any], fixed: Sequence[Path] = ()
) -> list[Change]:
    """Return the fields in which `new` differs from `old`; one in `fixed` replaces the object.

    Inputs are compared with inputs, never with what the server made of them: so a quantity in
    another spelling, a default, or an empty map is no change.
    """
    return list(_compare(old, new, (), fixed))


def _compare(old: Any, new: Any, path: Steps, fixed: Sequence[Path]) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _compare(old.get(key, _MISSING), new.get(key, _MISSING), (*path, key), fixed)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _compare(_at(old, index), _at(new, index), (*path, index), fixed)
    elif not _is_same(old, new):
        kind: Literal["add", "update", "delete"] = "update"
        if old is _MISSING:
            kind = "add"
        elif new is _MISSING:
            kind = "delete"
        yield Change(property_path(path), kind, replace=_touches(path, fixed))


def _at(items: Sequence[Any], index: int) -> Any:
    return items[index] if index < len(items) else _MISSING


def _is_same(old: Any, new: Any) -> bool:
    # True == 1 in Python, but not in a manifest.
    return new is not UNKNOWN and old == new and isinstance(old, bool) == isinstance(new, bool)


def _touches(path: Steps, fixed: Sequence[Path]) -> bool:
    """Return whether a change at `path` reaches one of `fixed`, inside or around it."""
    names = tuple(step for step in path if isinstance(step, str))
    return any(names[: len(field)] == field or field[: len(names)] == names for field in fixed)


def property_path(steps: Steps) -> str:
    """Return a path in Pulumi's syntax, such as `metadata.annotations["a.b/c"]`."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NEEDS_QUOTES.search(step):
            escaped = step.replace('"', '\\"')
            text += f'["{escaped}"]'
        else:
            text += f".{step}" if text else step
    return text
