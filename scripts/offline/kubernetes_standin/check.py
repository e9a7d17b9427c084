"""Check: the inputs as they will be used, and what is refused before anything is done."""

from collections.abc import Mapping

from pulumi.provider.experimental.property_value import PropertyValue

from core.handler import UNKNOWN
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


def check(urn: str, given: Mapping[str, PropertyValue]) -> Properties:
    """Return the inputs of `urn` as they will be used.

    Raises:
        Unserved: its type, or something in the inputs, is served by the real plugin alone.
    """
    kind = kind_of(urn)
    obj = {"apiVersion": kind.api_version, "kind": kind.name, **to_object(given)}
    names = metadata(obj)
    if obj.get("metadata") is not UNKNOWN:
        if not names.get("name"):
            raise Unserved("names that it makes up (autonaming)", "set metadata.name")
        if kind.namespaced and not names.get("namespace"):
            raise Unserved(f"a {kind.name} without metadata.namespace", "set it")
        if kind.only_unawaited and names.get("annotations") is not UNKNOWN and not skips_await(obj):
            raise Unserved(
                f"waiting until a {kind.name} is ready", f'set the annotation {_AWAIT}: "true"'
            )
    for name in annotations(obj):
        if name.startswith("pulumi.com/") and name != _AWAIT:
            raise Unserved(f"the annotation {name}", "leave it out")
    return to_properties(obj, given)
