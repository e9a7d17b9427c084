"""Check: the inputs as they will be used, with a name and a namespace."""

from collections.abc import Mapping

from pulumi.provider.experimental.property_value import PropertyValue

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.awaiting.looks import look_for
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.manifest import (
    Object,
    Properties,
    has_unknown,
    is_set,
    metadata,
    to_object,
    to_properties,
)
from scripts.offline.kubernetes_standin.naming import autonamed, is_named, left_behind
from scripts.offline.kubernetes_standin.ownership import field_manager
from scripts.offline.kubernetes_standin.planning import in_namespace, is_namespaced
from scripts.offline.kubernetes_standin.secrecy import conceal
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.unserved import (
    Unserved,
    refuse_component,
    refuse_patch_or_list,
)


def check(
    session: Session,
    urn: str,
    old: Mapping[str, PropertyValue],
    new: Mapping[str, PropertyValue],
    fresh_name: str,
) -> Properties:
    """Return the inputs of `urn` as they will be used; an unnamed new one gets `fresh_name`.

    Raises:
        Unserved: a type that is no plain object.
        ValueError: an annotation that can't be read, or a field that apply can't use.
    """
    type_token = type_of(urn)
    refuse_component(type_token)
    before, obj = to_object(old), to_object(new)
    refuse_patch_or_list(type_token, obj)
    kind = Kind.of_type(type_token)
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
    if metadata(obj).get("generateName") and not is_named(obj):
        raise Unserved("metadata.generateName", "leave it out: a name is generated all the same")
    if not has_unknown(obj):
        look_for(obj)
    cluster = session.reachable_cluster(urn)
    namespace = session.connection.namespace
    obj = in_namespace(obj, is_namespaced(cluster, Kind.of_object(obj)), namespace)
    if before:
        session.remember(urn, str(metadata(before).get("name")))
    if not is_named(obj):
        obj = _named(session, urn, obj, before, fresh_name)
    return conceal(to_properties(obj), new)


def _named(session: Session, urn: str, obj: Object, before: Object, fresh: str) -> Object:
    if before:
        # A name that was given before and no longer is: the diff replaces the object.
        return autonamed(obj, before["metadata"]["name"]) if is_set(before, "autonamed") else obj
    cluster, left = session.reachable_cluster(urn), None
    if cluster is not None and metadata(obj).get("namespace") is not UNKNOWN:
        left = left_behind(cluster, obj, field_manager(urn), session.known_names(urn))
    return autonamed(obj, left or fresh)


def type_of(urn: str) -> str:
    """Return the type in a URN (urn:pulumi:stack::project::parent$type::name)."""
    return urn.split("::", 3)[2].rsplit("$", 1)[-1]


def name_of(urn: str) -> str:
    """Return the resource's own name in a URN."""
    return urn.split("::", 3)[3]
