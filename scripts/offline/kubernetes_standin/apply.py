"""Create and update by server-side apply, their previews by its dry run, and delete."""

import re

from scripts.offline.kubernetes_standin.client import Answer
from scripts.offline.kubernetes_standin.errors import (
    AlreadyExists,
    Conflict,
    LostCluster,
    Refusal,
    Unreachable,
)
from scripts.offline.kubernetes_standin.kinds import Reference
from scripts.offline.kubernetes_standin.manifest import (
    Object,
    has_unknown,
    is_managed_by,
    managers,
    skips_await,
    with_owner,
    yields,
)
from scripts.offline.kubernetes_standin.provider import KubernetesProvider
from scripts.offline.kubernetes_standin.resource import ResourceRequest
from scripts.offline.kubernetes_standin.wait import until_gone, until_ready

_CONFLICT = "FieldManagerConflict"
_MANAGER = re.compile(r'conflict with "([^"]*)"')
# RBAC's words; those of quotas and of Pod Security are others.
_NO_RIGHT = re.compile(r'cannot \w+ resource "')
_NO_DRY_RUN = "does not support dry run"


def preview(provider: KubernetesProvider, request: ResourceRequest) -> None:
    """Have the API server check a create or an update, as far as it can already.

    Raises:
        AlreadyExists, Conflict, Refusal: the create or update would fail.
    """
    if has_unknown(request.obj):
        return
    provider.warn_if_unreachable(request.urn)
    try:
        if not request.state:
            _existing(provider, request)
        _apply(provider, request, dry_run=True, force=_is_replaced(provider, request))
    except Unreachable:
        return
    except Refusal as refusal:
        if not _leaves_open(refusal):
            raise


def _leaves_open(refusal: Refusal) -> bool:
    """Return whether a dry run that was refused does not show how the real run goes.

    The namespace may be made in the same run, an object that can't be changed is replaced in
    it, and the dry run itself may be what is not allowed.
    """
    return (
        refusal.is_missing_namespace
        or refusal.is_immutable
        or (refusal.status == 403 and _NO_RIGHT.search(refusal.message) is not None)
        or (refusal.status == 400 and _NO_DRY_RUN in refusal.message)
    )


def create(provider: KubernetesProvider, request: ResourceRequest) -> Object:
    """Make the object, or adopt what an interrupted create of this resource left behind.

    Returns:
        The live object.

    Raises:
        AlreadyExists: an object of this name has another owner.
        NotReady: the object was made, but is not ready.
        StillExists: an object of this name is being deleted, and does not go.
        Conflict, Refusal, Unreachable: it could not be made.
    """
    client, context = provider.client(), provider.context(request.urn)
    existing = _existing(provider, request)
    if existing is not None and "deletionTimestamp" in existing["metadata"]:
        context.status("waiting until the object of the same name is gone")
        until_gone(client, request.reference, request.limit, context)
        existing = None
    try:
        live = _apply(provider, request)
    except Refusal as refusal:
        if existing is None or not refusal.is_immutable:
            raise
        client.delete(request.reference)
        until_gone(client, request.reference, request.limit, context)
        live = _apply(provider, request)
    if existing is not None:
        context.info("adopted the object that already existed")
    return _when_ready(provider, request, live)


def update(provider: KubernetesProvider, request: ResourceRequest) -> Object:
    """Bring the object to its new inputs in place; make it again if it has vanished.

    Returns:
        The live object.

    Raises:
        NotReady: the object was changed, but is not ready.
        Conflict, Refusal, Unreachable: it could not be changed.
    """
    return _when_ready(provider, request, _apply(provider, request))


def delete(provider: KubernetesProvider, request: ResourceRequest, resource_id: str) -> None:
    """Delete the object; succeeds when it no longer exists.

    Raises:
        StillExists: the limit has passed, or the user cancelled; the text names the finalizers.
        LostCluster: the cluster can't be reached.
        Refusal: the API server refused.
    """
    reference = Reference.of_id(request.kind, resource_id)
    context = provider.context(request.urn)
    try:
        client = provider.client()
        client.delete(reference)
        if not (skips_await(request.before) and request.kind.deletion_skipped):
            until_gone(client, reference, request.limit, context)
    except Unreachable as error:
        if not provider.delete_unreachable:
            raise LostCluster(error) from None
        context.info(f"{error}; deleteUnreachable drops it from the state")


def _existing(provider: KubernetesProvider, request: ResourceRequest) -> Object | None:
    """Return the object that a create finds, None when it does not exist.

    Raises:
        AlreadyExists: it is not this stack's.
    """
    existing = provider.client().get(request.reference)
    if (
        existing is not None
        and "deletionTimestamp" not in existing["metadata"]
        and not provider.upsert
        and not _is_replaced(provider, request)
        and not is_managed_by(existing, request.manager)
    ):
        raise AlreadyExists(request.reference, managers(existing))
    return existing


def _is_replaced(provider: KubernetesProvider, request: ResourceRequest) -> bool:
    """Return whether the create that is previewed replaces an object that still exists.

    The real plugin may have made that one, under another field manager.
    """
    return not request.state and (request.urn, request.reference.id) in provider.in_state


def _when_ready(provider: KubernetesProvider, request: ResourceRequest, live: Object) -> Object:
    if skips_await(request.obj):
        return live
    context = provider.context(request.urn)
    return until_ready(provider.client(), request.reference, live, request.limit, context)


def _apply(
    provider: KubernetesProvider,
    request: ResourceRequest,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> Object:
    """Apply the object and return what it then is.

    Raises:
        Conflict: other managers hold fields of it, and not all of them yield.
        Refusal: the API server refused for another reason.
    """
    client, reference = provider.client(), request.reference
    obj = with_owner(request.obj, request.manager)

    def send(*, force: bool) -> Answer:
        return client.apply(reference, obj, request.manager, force=force, dry_run=dry_run)

    try:
        answer = send(force=force or provider.patch_force)
    except Refusal as refusal:
        conflicts = _conflicts(refusal)
        if not conflicts:
            raise
        if not all(yields(manager) for _, manager in conflicts):
            raise Conflict(reference, conflicts) from None
        answer = send(force=True)
    for warning in answer.warnings:
        provider.context(request.urn).warn(warning)
    applied: Object = answer.body
    return applied


def _conflicts(refusal: Refusal) -> list[tuple[str, str]]:
    """Return each field in conflict and its manager."""
    return [
        (cause.get("field", ""), found[1])
        for cause in refusal.causes
        if cause.get("reason") == _CONFLICT and (found := _MANAGER.search(cause.get("message", "")))
    ]
