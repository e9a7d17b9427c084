"""Names for objects that the program doesn't name."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.cluster import Cluster, NoSuchKind
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import Object, is_set, metadata, with_metadata
from scripts.offline.kubernetes_standin.ownership import is_managed_by

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_SUFFIX_LENGTH = 8
_AUTONAMED = "pulumi.com/autonamed"


def is_named(obj: Mapping[str, Any]) -> bool:
    """Tell whether the program names the object; a name that isn't known yet counts."""
    given = obj.get("metadata")
    return given is UNKNOWN or bool(metadata(obj).get("name"))


def generated_name(resource_name: str, seed: bytes) -> str:
    """Return the resource's name with a random suffix that `seed` decides."""
    digest = hashlib.sha256(seed or secrets.token_bytes(32)).digest()
    suffix = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_SUFFIX_LENGTH])
    return f"{resource_name}-{suffix}"


def autonamed(obj: Mapping[str, Any], name: str) -> Object:
    """Return `obj` with `name` and the annotation that says it was generated."""
    annotations = metadata(obj).get("annotations")
    if annotations is not UNKNOWN:
        annotations = {**(annotations or {}), _AUTONAMED: "true"}
    return with_metadata(obj, name=name, annotations=annotations)


def left_behind(
    cluster: Cluster, obj: Mapping[str, Any], manager: str, known: frozenset[str]
) -> str | None:
    """Return the generated name under which an interrupted create left this object, or None.

    Names in `known` are in the state already, such as that of an object to be replaced.
    """
    kind = Kind.of_object(obj)
    try:
        candidates = cluster.list(kind, metadata(obj).get("namespace"))
    except NoSuchKind:
        return None
    for candidate in candidates:
        names = candidate["metadata"]
        if (
            is_managed_by(candidate, manager)
            and is_set(candidate, "autonamed")
            and names["name"] not in known
            and "deletionTimestamp" not in names
        ):
            return str(names["name"])
    return None
