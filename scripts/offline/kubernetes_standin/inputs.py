"""The inputs of an object: what is refused before anything is done, and which fields change."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import Change, compare
from scripts.offline.kubernetes_standin.errors import Unserved
from scripts.offline.kubernetes_standin.kinds import kind_of
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


def check(urn: str, given: Mapping[str, PropertyValue]) -> Properties:
    """Return the inputs of `urn` as they will be used.

    Raises:
        Unserved: its type, or something in the inputs, is served by the real plugin alone.
    """
    kind = kind_of(urn)
    obj = {"apiVersion": kind.api_version, "kind": kind.name, **to_object(given)}
    names = metadata(obj)
    if not names.get("name"):
        raise Unserved("names that it makes up (autonaming)", "set metadata.name")
    if kind.namespaced and not names.get("namespace"):
        raise Unserved(f"a {kind.name} without metadata.namespace", "set it")
    if kind.only_unawaited and not skips_await(obj):
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
    old: Mapping[str, Any], new: Mapping[str, Any], fixed: Sequence[str] = ()
) -> list[Change]:
    """Return the fields in which `new` differs from `old`; one in `fixed` replaces the object.

    Inputs are compared with inputs, never with what the server made of them: so a quantity in
    another spelling, a default, or an empty map is no change.
    """
    gone = [Change(key, "delete") for key in sorted(old.keys() - new.keys())]
    return [
        replace(each, replace=any(_touches(each.path, field) for field in fixed))
        for each in (*compare(_by_index(old), _by_index(new)), *gone)
    ]


def _by_index(value: Any) -> Any:
    """Return a document with its lists as mappings, so that their items are compared."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, Mapping):
        return {key: _by_index(inner) for key, inner in value.items()}
    return value


def _touches(path: str, field: str) -> bool:
    """Return whether a change at `path` is inside of a field, or around it."""
    return all(map(eq, re.split(r"[.\[]", path), field.split(".")))


def drifted(given: Any, before: Any, now: Any) -> Any:
    """Return the inputs `given` with every field that has changed on the cluster since.

    A field counts as changed when the live object had another value in it `before`: comparing
    with the input itself would call a quantity that the server respells ("1000m", "1") drift.
    Fields that were not given, such as defaults, status and other managers' own, are left out.
    """
    if isinstance(given, Mapping) and isinstance(now, Mapping):
        earlier = before if isinstance(before, Mapping) else {}
        merged = {
            key: drifted(value, earlier.get(key, _MISSING), now.get(key, _MISSING))
            for key, value in given.items()
        }
        return {key: value for key, value in merged.items() if value is not _MISSING}
    if before is _MISSING and now is not _MISSING and isinstance(given, str | int | float):
        return now
    if before == now:
        return given
    if not (isinstance(given, list) and isinstance(now, list)):
        return now
    known = before if isinstance(before, list) else []
    items = [
        drifted(item, known[index] if index < len(known) else _MISSING, now[index])
        for index, item in enumerate(given[: len(now)])
    ]
    # What admission adds behind the items that were given is no drift.
    added = now[len(given) :]
    return items if added == known[len(given) :] else items + added
