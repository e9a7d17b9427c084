"""Read: the live object for a refresh, a `.get()` or an import."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from scripts.offline.kubernetes_standin.awaiting.looks import look_for
from scripts.offline.kubernetes_standin.checking import type_of
from scripts.offline.kubernetes_standin.checkpoint import (
    InitFailed,
    live_in,
    manager_of,
    state_of,
)
from scripts.offline.kubernetes_standin.cluster import NoSuchKind
from scripts.offline.kubernetes_standin.drift import as_inputs, drifted
from scripts.offline.kubernetes_standin.kinds import Kind, Place
from scripts.offline.kubernetes_standin.manifest import Properties, to_object, to_properties
from scripts.offline.kubernetes_standin.secrecy import conceal
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.transport import Unreachable


@dataclass(frozen=True)
class Found:
    """An object on the cluster: its state, and the inputs that would make it so."""

    state: Properties
    inputs: Properties


class LostCluster(Exception):
    """The cluster can't be reached, so nobody knows whether the object is still there."""

    def __init__(self, error: Unreachable) -> None:
        super().__init__(
            f"{error}. If the cluster was deleted, run the operation again with "
            "PULUMI_K8S_DELETE_UNREACHABLE=true to drop its objects from the state"
        )


def read(
    session: Session,
    urn: str,
    resource_id: str,
    state: Mapping[str, PropertyValue],
    inputs: Mapping[str, PropertyValue],
) -> Found | None:
    """Return the object as it is now, None when it is gone.

    In a refresh the inputs take over what has changed on the cluster; for an object that the
    state doesn't know yet, they are the whole of it.

    Raises:
        InitFailed: the object is there, but not ready.
        LostCluster: the cluster can't be reached.
    """
    given, before = to_object(inputs), live_in(state)
    kind = _kind(urn, given or before)
    place = Place.of_id(kind, resource_id)
    try:
        cluster = session.connection.cluster()
        live = cluster.get(place)
    except NoSuchKind:
        return None
    except Unreachable as error:
        if session.settings.delete_unreachable:
            session.context(urn).info(f"{error}; deleteUnreachable drops it from the state")
            return None
        raise LostCluster(error) from None
    if live is None:
        return None
    session.remember(urn, place.name)
    now = drifted(given, before, live) if given else as_inputs(live)
    manager = manager_of(urn, now, state)
    found = Found(state_of(live, now, inputs, manager), conceal(to_properties(now), inputs))
    look = look_for(given) if given else None
    if look is not None:
        verdict = look(cluster, live)
        if verdict.state != "ready":
            raise InitFailed(resource_id, verdict.message, (), found.state, found.inputs)
    return found


def _kind(urn: str, obj: Mapping[str, Any]) -> Kind:
    if "apiVersion" in obj and "kind" in obj:
        return Kind.of_object(obj)
    return Kind.of_type(type_of(urn))
