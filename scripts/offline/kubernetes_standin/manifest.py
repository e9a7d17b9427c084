"""Kubernetes objects as Pulumi properties, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN
from infra.provider.engine import plain_map, wrap_map

Object = dict[str, Any]
Properties = dict[str, PropertyValue]

# Pulumi's names may hold no dash, so the SDKs write these fields of a CRD's schema otherwise.
_DASHED = {
    f"x_kubernetes_{name.replace('-', '_')}": f"x-kubernetes-{name}"
    for name in (
        "embedded-resource",
        "int-or-string",
        "list-map-keys",
        "list-type",
        "map-type",
        "preserve-unknown-fields",
        "validations",
    )
}
_UNDERSCORED = {dashed: underscored for underscored, dashed in _DASHED.items()}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def to_object(properties: Mapping[str, PropertyValue]) -> Object:
    """Return the manifest that `properties` mean; a null means that the field is not given."""
    obj: Object = _translate(plain_map(properties), _DASHED)
    return obj


def to_properties(obj: Mapping[str, Any], inputs: Mapping[str, PropertyValue]) -> Properties:
    """Return `obj` as properties, the reverse of `to_object`.

    A value of `inputs` that holds a secret is entirely secret, and so is a Secret's content.
    """
    secret = {name for name, value in inputs.items() if value.contains_secret()}
    if obj.get("kind") == "Secret":
        secret |= {"data", "stringData"}
        # `kubectl apply` keeps a copy of the complete Secret in an annotation.
        if _LAST_APPLIED in annotations(obj):
            secret.add("metadata")
    return wrap_map(_translate(obj, _UNDERSCORED), frozenset(secret))


def _translate(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            names.get(key, key): _translate(inner, names)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_translate(item, names) for item in value]
    return value


def has_unknown(value: object) -> bool:
    """Return whether anything in `value` is known only once something else exists."""
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's metadata, empty while it is missing or unknown."""
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}


def annotations(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's annotations, empty while they are missing or unknown."""
    found = metadata(obj).get("annotations")
    return found if isinstance(found, Mapping) else {}


def skips_await(obj: Mapping[str, Any]) -> bool:
    """Return whether nothing waits for the object: the annotation `pulumi.com/skipAwait`."""
    return annotations(obj).get("pulumi.com/skipAwait") == "true"


def with_metadata(obj: Mapping[str, Any], **fields: Any) -> Object:
    """Return `obj` with these fields of its metadata; None takes one away."""
    merged = {**metadata(obj), **fields}
    return {**obj, "metadata": {key: value for key, value in merged.items() if value is not None}}
