"""The inputs of an object: what is refused before anything is done, and which fields change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN, Change
from scripts.offline.kubernetes_standin.errors import Unserved
from scripts.offline.kubernetes_standin.kinds import Path, kind_of
from scripts.offline.kubernetes_standin.manifest import (
    Properties,
    annotations,
    metadata,
    skips_await,
    to_object,
    to_properties,
)

_AWAIT = "pulumi.com/skipAwait"
_MISSING = object()
_NEEDS_QUOTES = re.compile(r'[.\[\]"]')

Steps = tuple[str | int, ...]


def check(urn: str, given: Mapping[str, PropertyValue]) -> Properties:
    """Return the inputs of `urn` as they will be used.

    Raises:
        Unserved: its type, or something in the inputs, is served by the real plugin alone.
    """
    kind = kind_of(urn)
    obj = {"apiVersion": kind.api_version, "kind": kind.name, **to_object(given)}
    names = metadata(obj)
    if obj.get("metadata") is not UNKNOWN:
        if not names.get("name"):
            raise Unserved("names that it makes up (autonaming)", "set metadata.name")
        if kind.namespaced and not names.get("namespace"):
            raise Unserved(f"a {kind.name} without metadata.namespace", "set it")
        if kind.only_unawaited and names.get("annotations") is not UNKNOWN and not skips_await(obj):
            raise Unserved(
                f"waiting until a {kind.name} is ready", f'set the annotation {_AWAIT}: "true"'
            )
    if kind.name == "Secret" and "stringData" in obj:
        raise Unserved("a Secret's stringData", "set data, in base64")
    for name in annotations(obj):
        if name.startswith("pulumi.com/") and name != _AWAIT:
            raise Unserved(f"the annotation {name}", "leave it out")
    return to_properties(obj, given)


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
