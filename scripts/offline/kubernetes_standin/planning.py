"""Check and diff: what the program's inputs mean, and what they would change."""

from collections.abc import Iterable, Mapping
from typing import Any

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.awaiting.workloads import job
from scripts.offline.kubernetes_standin.cluster import Cluster, NoSuchKind
from scripts.offline.kubernetes_standin.differ import FieldChange, changes
from scripts.offline.kubernetes_standin.immutable import fixed_fields
from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.manifest import Object, is_set, metadata, with_metadata
from scripts.offline.kubernetes_standin.naming import is_named
from scripts.offline.kubernetes_standin.paths import parse
from scripts.offline.kubernetes_standin.settings import Settings

_REPLACE_UNREADY = ("metadata", "annotations", "pulumi.com/replaceUnready")


def is_namespaced(cluster: Cluster | None, kind: Kind) -> bool | None:
    """Tell whether objects of `kind` live in namespaces; None while nobody can know."""
    if cluster is None:
        return None
    try:
        return cluster.endpoint(kind).namespaced
    except NoSuchKind:
        return None


def in_namespace(obj: Object, namespaced: bool | None, default: str) -> Object:
    """Return `obj` with the namespace that it will have; an unknown kind gets one."""
    if obj.get("metadata") is UNKNOWN:
        return obj
    if namespaced is False:
        return with_metadata(obj, namespace=None)
    return with_metadata(obj, namespace=metadata(obj).get("namespace") or default)


def plan(
    old: Object, new: Object, settings: Settings, *, namespaced: bool | None
) -> list[FieldChange]:
    """Return what changes from the inputs of last time to those of now."""
    # The namespace "default" may be written or not, and a cluster-wide object has none.
    old, new = (in_namespace(obj, namespaced, "default") for obj in (old, new))
    fixed = fixed_fields(
        new,
        config_map_mutable=settings.config_map_mutable,
        secret_mutable=settings.secret_mutable,
    )
    if old and Kind.of_object(old).group != Kind.of_object(new).group:
        fixed += (("apiVersion",),)
    return changes(old, new, (*fixed, ("kind",)))


def without_ignored(found: Iterable[FieldChange], ignored: Iterable[str]) -> list[FieldChange]:
    """Return the changes outside the paths that `ignore_changes` names."""
    left_out = [parse(text) for text in ignored]
    return [
        change for change in found if not any(change.path[: len(path)] == path for path in left_out)
    ]


def is_same_place(new: Mapping[str, Any], old_id: str) -> bool:
    """Tell whether the new object must bear the very name that the old one has."""
    names = metadata(new)
    namespace, _, name = old_id.rpartition("/")
    return (
        is_named(new)
        and not is_set(new, "autonamed")
        and names.get("name") == name
        and names.get("namespace", "default") == (namespace or "default")
    )


def unready_job(cluster: Cluster, new: Mapping[str, Any], old_id: str) -> FieldChange | None:
    """Return the change that replaces a job which isn't complete and is annotated so."""
    kind = Kind.of_object(new)
    if not is_set(new, "replaceUnready") or (kind.group, kind.kind) != ("batch", "Job"):
        return None
    live = cluster.get(Place.of_id(kind, old_id))
    if live is None or job(cluster, live).state == "ready":
        return None
    return FieldChange(_REPLACE_UNREADY, "update", replace=True)
