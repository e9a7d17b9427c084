"""Delete: ask for it, and wait until the object is gone."""

from collections.abc import Mapping

from pulumi.provider.experimental.property_value import PropertyValue

from scripts.offline.kubernetes_standin.awaiting.wait import limit, until_gone
from scripts.offline.kubernetes_standin.checkpoint import inputs_in, live_in
from scripts.offline.kubernetes_standin.cluster import NoSuchKind
from scripts.offline.kubernetes_standin.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Place
from scripts.offline.kubernetes_standin.manifest import annotation, is_set, to_object
from scripts.offline.kubernetes_standin.reading import LostCluster
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.transport import Unreachable

_POLICIES = {"orphan": "Orphan", "background": "Background"}
# For these alone `skipAwait` covers the deletion as well, as on the real plugin.
_SKIPPED = frozenset({"DaemonSet", "Deployment", "Job", "Namespace", "Pod", "StatefulSet"})


def delete(
    session: Session,
    urn: str,
    resource_id: str,
    state: Mapping[str, PropertyValue],
    timeout: float,
) -> None:
    """Delete the object; succeeds when it, or its kind, is no longer there.

    Raises:
        NotReady: it is still there when the limit has passed; says which finalizers hold it.
        LostCluster: the cluster can't be reached.
        Refusal: the API server refused.
    """
    inputs = to_object(inputs_in(state))
    kind = Kind.of_object(inputs or live_in(state))
    place = Place.of_id(kind, resource_id)
    policy = _POLICIES.get((annotation(inputs, "deletionPropagationPolicy") or "").lower())
    try:
        cluster = session.connection.cluster()
        cluster.delete(place, policy or "Foreground")
        if not (is_set(inputs, "skipAwait") and kind.kind in _SKIPPED):
            until_gone(cluster, place, limit(timeout, inputs), session.context(urn))
    except NoSuchKind:
        return
    except Unreachable as error:
        if not session.settings.delete_unreachable:
            raise LostCluster(error) from None
        session.context(urn).info(f"{error}; deleteUnreachable drops it from the state")
        return
    if kind == CUSTOM_RESOURCE_DEFINITION:
        cluster.forget_kinds()
