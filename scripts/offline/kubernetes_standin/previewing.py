"""Previews of create and update: a dry run on the server, whose refusal is shown."""

import re
from collections.abc import Callable

from scripts.offline.kubernetes_standin.applying import Applier, is_immutable
from scripts.offline.kubernetes_standin.checkpoint import previewed
from scripts.offline.kubernetes_standin.cluster import NoSuchKind
from scripts.offline.kubernetes_standin.kinds import Place
from scripts.offline.kubernetes_standin.making import (
    AlreadyExists,
    applier_for,
    apply_update,
    is_missing_namespace,
)
from scripts.offline.kubernetes_standin.manifest import (
    Object,
    Properties,
    has_unknown,
    with_metadata,
)
from scripts.offline.kubernetes_standin.ownership import is_managed_by
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.transport import Refusal, Unreachable
from scripts.offline.kubernetes_standin.wish import Wish

# RBAC's words; those of quotas and of Pod Security are others.
_NO_RIGHT = re.compile(r'cannot \w+ resource "')
_NO_DRY_RUN = "does not support dry run"


def preview_create(session: Session, wish: Wish) -> Properties:
    """Return the object as the server would make it; where it can't tell, the inputs.

    Raises:
        AlreadyExists, Conflict, Refusal: the create would fail.
    """
    return _preview(session, wish, lambda applier: _dry_create(session, applier, wish))


def preview_update(session: Session, wish: Wish) -> Properties:
    """Return the object as the server would change it; where it can't tell, the inputs.

    Raises:
        Conflict, Refusal: the update would fail.
    """
    return _preview(session, wish, lambda applier: apply_update(applier, wish))


def _preview(session: Session, wish: Wish, run: Callable[[Applier], Object]) -> Properties:
    if has_unknown(wish.obj) or session.reachable_cluster(wish.urn) is None:
        return dict(wish.given)
    try:
        applied = run(applier_for(session, wish, dry_run=True))
    except (NoSuchKind, Refusal, Unreachable) as error:
        if _says_nothing(error):
            return dict(wish.given)
        raise
    return previewed(applied, wish.obj, wish.given)


def _dry_create(session: Session, applier: Applier, wish: Wish) -> Object:
    obj = applier.scoped(wish.obj)
    place = Place.of_object(obj)
    existing = applier.cluster.get(place)
    stays = existing is not None and "deletionTimestamp" not in existing["metadata"]
    if existing is not None and stays and not session.settings.upsert:
        # In a replacement the old object is there until the real create.
        replaced = place.name in session.known_names(wish.urn)
        if not replaced and not is_managed_by(existing, wish.manager):
            raise AlreadyExists(existing)
    try:
        return applier.apply(obj, existing)
    except Refusal as refusal:
        if existing is None or not is_immutable(refusal):
            raise
        return applier.apply(with_metadata(obj, name=f"{place.name}-preview"), None)


def _says_nothing(error: Exception) -> bool:
    """Tell whether `error` leaves open how the real run goes.

    The kind or the namespace may be made in the same run, the dry run itself may be what is
    not allowed, and a cluster that can't be reached checks nothing.
    """
    if not isinstance(error, Refusal):
        return isinstance(error, NoSuchKind | Unreachable)
    return (
        is_missing_namespace(error)
        or (error.status == 403 and _NO_RIGHT.search(error.message) is not None)
        or (error.status == 400 and _NO_DRY_RUN in error.message)
    )
