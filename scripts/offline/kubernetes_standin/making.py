"""Create and update: bring the object to its inputs, and wait until it is ready."""

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential
from tenacity.nap import sleep_using_event

from scripts.offline.kubernetes_standin.applying import Applier, is_immutable, leave_ignored
from scripts.offline.kubernetes_standin.awaiting.looks import look_for
from scripts.offline.kubernetes_standin.awaiting.wait import (
    NotReady,
    limit,
    until_gone,
    until_ready,
)
from scripts.offline.kubernetes_standin.checkpoint import InitFailed, state_of
from scripts.offline.kubernetes_standin.cluster import NoSuchKind
from scripts.offline.kubernetes_standin.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, Place
from scripts.offline.kubernetes_standin.manifest import Object, Properties
from scripts.offline.kubernetes_standin.ownership import is_managed_by, managers
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.transport import Refusal
from scripts.offline.kubernetes_standin.wish import Wish

# A namespace or a CRD that is made beside the object may be a moment late.
_PATIENCE_SECONDS = 20.0


class AlreadyExists(Exception):
    """An object of this name is there, and nothing says that this stack made it."""

    def __init__(self, existing: Object) -> None:
        others = ", ".join(managers(existing)) or "nobody"
        super().__init__(
            f"{Place.of_object(existing)} already exists, and this stack did not make it (its "
            f"fields are managed by {others}). Give this one another name, take the object into "
            "the stack with `pulumi import`, or let the provider take over existing objects with "
            "upsertExistingObjects: true"
        )


def create(session: Session, wish: Wish) -> tuple[str, Properties]:
    """Make the object, or adopt what an interrupted create of this resource left behind.

    Returns:
        The resource's id and state.

    Raises:
        AlreadyExists: the name is taken by an object of someone else's.
        InitFailed: the object was made, but is not ready.
        Conflict, Refusal, Unreachable, NoSuchKind: it could not be made.
    """
    applier = applier_for(session, wish)
    live = Retrying(
        retry=retry_if_exception(_may_come),
        stop=stop_after_delay(min(_PATIENCE_SECONDS, limit(wish.timeout, wish.obj))),
        wait=wait_exponential(multiplier=0.2, max=2),
        sleep=sleep_using_event(session.cancelled),
        reraise=True,
    )(lambda: _make(applier, wish))
    return Place.of_object(live).id, _settled(applier, wish, live)


def applier_for(session: Session, wish: Wish, *, dry_run: bool = False) -> Applier:
    """Return what applies the object of `wish`.

    Raises:
        Unreachable: the cluster can't be reached.
    """
    cluster, context = session.connection.cluster(), session.context(wish.urn)
    return Applier(cluster, session.settings, context, wish.manager, dry_run)


def _may_come(error: BaseException) -> bool:
    return isinstance(error, NoSuchKind) or is_missing_namespace(error)


def is_missing_namespace(error: BaseException) -> bool:
    """Tell whether an object was refused because its namespace isn't there (yet)."""
    return isinstance(error, Refusal) and error.status == 404 and "namespaces" in error.message


def _make(applier: Applier, wish: Wish) -> Object:
    cluster, context = applier.cluster, applier.context
    obj = applier.scoped(wish.obj)
    place, seconds = Place.of_object(obj), limit(wish.timeout, wish.obj)
    existing = cluster.get(place)
    if existing is not None and "deletionTimestamp" in existing["metadata"]:
        context.status("waiting until the object of the same name is gone")
        until_gone(cluster, place, seconds, context)
        existing = None
    if existing is None:
        return applier.apply(obj, None)
    if not is_managed_by(existing, wish.manager):
        if not applier.settings.upsert:
            raise AlreadyExists(existing)
        return applier.apply(obj, existing)
    try:
        live = applier.apply(obj, existing)
    except Refusal as refusal:
        if not is_immutable(refusal):
            raise
        cluster.delete(place, "Foreground")
        until_gone(cluster, place, seconds, context)
        live = applier.apply(obj, None)
    context.info("adopted the object that an interrupted run had made")
    return live


def update(session: Session, wish: Wish) -> Properties:
    """Bring the object to its new inputs in place; make it again if it has vanished.

    Raises:
        InitFailed: the object was changed, but is not ready.
        Conflict, Refusal, Unreachable, NoSuchKind: it could not be changed.
    """
    applier = applier_for(session, wish)
    return _settled(applier, wish, apply_update(applier, wish))


def apply_update(applier: Applier, wish: Wish) -> Object:
    """Apply the changed object, without what `ignore_changes` leaves to others."""
    obj = applier.scoped(wish.obj)
    live = applier.cluster.get(Place.of_object(obj))
    return applier.apply(leave_ignored(obj, live, wish.manager, wish.ignored), live)


def _settled(applier: Applier, wish: Wish, live: Object) -> Properties:
    """Wait until `live` is ready and return its state."""
    look, seconds = look_for(wish.obj), limit(wish.timeout, wish.obj)
    try:
        if look is not None:
            live = until_ready(applier.cluster, live, look, seconds, applier.context)
            applier.context.status("")
    except NotReady as error:
        seen = state_of(error.live, wish.obj, wish.given, wish.manager)
        place = Place.of_object(error.live)
        raise InitFailed(place.id, error.message, error.details, seen) from None
    if Kind.of_object(live) == CUSTOM_RESOURCE_DEFINITION:
        applier.cluster.forget_kinds()
    return state_of(live, wish.obj, wish.given, wish.manager)
