"""Kubernetes objects as Pulumi properties and back, and who manages which of their fields.

The latter is server-side apply's `managedFields`.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN
from infra.provider.engine import plain_map, wrap_map

Object = dict[str, Any]
Properties = dict[str, PropertyValue]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Whose changes by hand an update takes back, as the real plugin does.
_YIELDING = ("kubectl", "before-first-apply")
_NAMES = frozenset({"name", "namespace"})
_OWNER = "pulumi.com/patchFieldManager"


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
    return annotations(obj).get("pulumi.com/skipAwait") == "true"


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
