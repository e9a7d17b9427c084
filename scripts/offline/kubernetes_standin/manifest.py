"""Kubernetes objects as Pulumi properties, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.values import UNKNOWN, plain_map, wrap_map

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


def to_object(properties: Mapping[str, PropertyValue]) -> Object:
    """Return the manifest that `properties` mean; a null means that the field is not given."""
    obj: Object = _translate(plain_map(properties), _DASHED)
    return obj


def to_properties(obj: Mapping[str, Any]) -> Properties:
    """Return `obj` as properties, the reverse of `to_object`."""
    return wrap_map(_translate(obj, _UNDERSCORED))


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
    """Tell whether anything in `value` is known only once something else exists."""
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object's metadata, empty while it is missing or unknown."""
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}


def annotation(obj: Mapping[str, Any], name: str) -> str | None:
    """Return the annotation `pulumi.com/<name>`, or None."""
    annotations = metadata(obj).get("annotations")
    value = annotations.get(f"pulumi.com/{name}") if isinstance(annotations, Mapping) else None
    return value if isinstance(value, str) else None


def is_set(obj: Mapping[str, Any], name: str) -> bool:
    """Tell whether the annotation `pulumi.com/<name>` is "true"."""
    return annotation(obj, name) == "true"


def with_metadata(obj: Mapping[str, Any], **fields: Any) -> Object:
    """Return `obj` with these fields of its metadata; None takes one away."""
    merged = {**metadata(obj), **fields}
    return {**obj, "metadata": {key: value for key, value in merged.items() if value is not None}}
