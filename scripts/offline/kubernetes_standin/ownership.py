"""Who manages which field of an object: server-side apply's `managedFields`."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.offline.kubernetes_standin.manifest import Object, metadata, with_metadata

# Whose changes by hand an update takes back, as the real plugin does: kubectl's, and those that
# the plugin itself made before it knew server-side apply.
_YIELDING = ("kubectl", "before-first-apply")
_YIELDING_UPDATES = ("pulumi-kubernetes", "pulumi-resource-kubernetes")
_NAMES = frozenset({"name", "namespace"})
OWNER_ANNOTATION = "pulumi.com/patchFieldManager"


def field_manager(urn: str) -> str:
    """Return the name under which the resource `urn` manages its object's fields.

    It is the same in every run, so that what an interrupted create left behind is known again.
    The state's own place is part of it, as two people's stacks may bear the same names.
    """
    identity = f"{os.environ.get('PULUMI_BACKEND_URL', '')}\n{urn}"
    return f"pulumi-kubernetes-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def is_managed_by(obj: Mapping[str, Any], manager: str) -> bool:
    """Tell whether `manager` has applied `obj`."""
    return any(
        entry.get("manager") == manager and entry.get("operation") == "Apply"
        for entry in _entries(obj)
    )


def with_owner(obj: Mapping[str, Any], manager: str) -> Object:
    """Return `obj` with at least one field that `manager` can be seen to manage.

    The server notes no manager for an object of nothing but a name, such as a namespace.
    """
    if obj.keys() - {"apiVersion", "kind", "metadata"} or metadata(obj).keys() - _NAMES:
        return dict(obj)
    return with_metadata(obj, annotations={OWNER_ANNOTATION: manager})


def managers(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who manages fields of `obj`."""
    return tuple(sorted({str(entry.get("manager")) for entry in _entries(obj)}))


def yields(obj: Mapping[str, Any], manager: str) -> bool:
    """Tell whether an update may take fields of `obj` over from `manager` unasked."""
    if manager.startswith(_YIELDING):
        return True
    operations = {
        entry.get("operation") for entry in _entries(obj) if entry.get("manager") == manager
    }
    return manager.startswith(_YIELDING_UPDATES) and operations == {"Update"}


def owns(obj: Mapping[str, Any], manager: str, path: Sequence[str | int]) -> bool:
    """Tell whether `manager` manages the field of `obj` at `path`; a list counts as one field."""
    names = [step for step in path if isinstance(step, str)]
    if len(names) < len(path):
        names = names[: list(path).index(next(step for step in path if isinstance(step, int)))]
    for entry in _entries(obj):
        fields: Any = entry.get("fieldsV1") or {}
        for name in names:
            fields = fields.get(f"f:{name}") if isinstance(fields, Mapping) else None
        if fields is not None and entry.get("manager") == manager:
            return True
    return False


def _entries(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return metadata(obj).get("managedFields") or ()
