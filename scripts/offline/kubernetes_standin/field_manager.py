"""Who manages which field of an object: server-side apply's `managedFields`."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.offline.kubernetes_standin.manifest import Object, metadata, with_metadata

# Whose changes by hand an update takes back, as the real plugin does.
_YIELDING = ("kubectl", "before-first-apply")
_NAMES = frozenset({"name", "namespace"})
_OWNER = "pulumi.com/patchFieldManager"


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
