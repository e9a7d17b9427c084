"""Kubernetes objects as Pulumi properties and back: what is refused, what differs, who manages it.

The latter is server-side apply's `managedFields`.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN, Change, differences
from infra.provider.engine import plain_map, wrap_map
from scripts.offline.kubernetes_standin.kinds import Unserved, kind_of

Object = dict[str, Any]
Properties = dict[str, PropertyValue]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Whose changes by hand an update takes back, as the real plugin does.
_YIELDING = ("kubectl", "before-first-apply")
_NAMES = frozenset({"name", "namespace"})
_OWNER = "pulumi.com/patchFieldManager"
_AWAIT = "pulumi.com/skipAwait"
_MISSING = object()


def to_object(properties: Mapping[str, PropertyValue]) -> Object:
    """Return the manifest that `properties` mean; a null means that the field is not given."""
    obj: Object = _translate(plain_map(properties), "_", "-")
    return obj


def to_properties(obj: Mapping[str, Any], inputs: Mapping[str, PropertyValue]) -> Properties:
    """Return `obj` as properties, the reverse of `to_object`.

    A value of `inputs` that holds a secret is entirely secret, and so is a Secret's content.
    """
    secret = {name for name, value in inputs.items() if value.contains_secret()}
    if obj.get("kind") == "Secret":
        secret.add("data")
        # `kubectl apply` keeps a copy of the complete Secret in an annotation.
        if _LAST_APPLIED in annotations(obj):
            secret.add("metadata")
    return wrap_map(_translate(obj, "-", "_"), frozenset(secret))


def _translate(value: Any, old: str, new: str) -> Any:
    """Replace the dashes in the names of a CRD's `x-kubernetes-` fields: Pulumi's have none."""
    if isinstance(value, Mapping):
        return {
            key.replace(old, new) if key.startswith(f"x{old}kubernetes{old}") else key: _translate(
                inner, old, new
            )
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_translate(item, old, new) for item in value]
    return value


def has_unknown(value: object) -> bool:
    """Return whether anything in `value` is known only once something else exists."""
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's metadata, empty without any."""
    return obj.get("metadata") or {}


def annotations(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's annotations, empty without any."""
    return metadata(obj).get("annotations") or {}


def skips_await(obj: Mapping[str, Any]) -> bool:
    """Return whether nothing waits for the object: the annotation `pulumi.com/skipAwait`."""
    return annotations(obj).get(_AWAIT) == "true"


def with_metadata(obj: Mapping[str, Any], **fields: Any) -> Object:
    """Return `obj` with these fields of its metadata; None takes one away."""
    merged = {**metadata(obj), **fields}
    return {**obj, "metadata": {key: value for key, value in merged.items() if value is not None}}


def field_manager(urn: str) -> str:
    """Return the name under which the resource `urn` manages its object's fields.

    It is the same in every run, so that what an interrupted create left behind is recognized.
    The state's own address is part of it, as stacks of two users may have the same names.
    """
    identity = f"{os.environ.get('PULUMI_BACKEND_URL', '')}\n{urn}"
    return f"pulumi-kubernetes-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def is_managed_by(obj: Mapping[str, Any], manager: str) -> bool:
    """Return whether `manager` has applied `obj`."""
    return any(
        entry.get("manager") == manager and entry.get("operation") == "Apply"
        for entry in _entries(obj)
    )


def with_owner(obj: Mapping[str, Any], manager: str) -> Object:
    """Return `obj` with at least one field that `manager` can be seen to manage.

    The server notes no manager for an object of nothing but a name, such as an empty Secret.
    """
    if obj.keys() - {"apiVersion", "kind", "metadata"} or metadata(obj).keys() - _NAMES:
        return dict(obj)
    return with_metadata(obj, annotations={_OWNER: manager})


def managers(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who manages fields of `obj`."""
    return tuple(sorted({str(entry.get("manager")) for entry in _entries(obj)}))


def yields(manager: str) -> bool:
    """Return whether an update takes fields over from `manager` without being forced to."""
    return manager.startswith(_YIELDING)


def _entries(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return metadata(obj).get("managedFields") or ()


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
    return [
        replace(each, replace=any(_touches(each.path, field) for field in fixed))
        for each in differences(_by_index(old), _by_index(new))
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
