"""Delete: start it, and wait until the object is gone."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from core.context import Context
from core.manifests import held
from core.wait import NotYet
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.errors import (
    LostCluster,
    Refusal,
    StillExists,
    Unreachable,
)
from scripts.offline.kubernetes_standin.kinds import (
    CONFIG_MAP,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE,
    Kind,
    Reference,
)
from scripts.offline.kubernetes_standin.manifest import Object, skips_await
from scripts.offline.kubernetes_standin.provider import KubernetesProvider
from scripts.offline.kubernetes_standin.resource import ResourceRequest
from scripts.offline.kubernetes_standin.wait import quietly_until

_HOLDABLE = (
    Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    Kind("v1", "Pod", "pods"),
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
    SECRET,
    SERVICE,
)
"""What is looked through for finalizers in a namespace that does not go away."""


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
        if not provider.settings.delete_unreachable:
            raise LostCluster(error) from None
        context.info(f"{error}; deleteUnreachable drops it from the state")


def until_gone(client: Client, reference: Reference, seconds: float, context: Context) -> None:
    """Wait until the object, or at least the one that exists now, is gone.

    Raises:
        StillExists: it still exists after `seconds`, or the user cancelled.
    """
    seen: Object = {}

    def look() -> None:
        nonlocal seen
        live = client.get(reference)
        if live is None or live["metadata"]["uid"] != (seen or live)["metadata"]["uid"]:
            return
        seen = live
        raise NotYet(_blocking(live))

    def overdue(blocking: str) -> str:
        text = f"{reference} still exists {seconds:g} s after its deletion was started; {blocking}"
        return "\n  ".join([text, *_holders(client, reference, seen)])

    try:
        quietly_until(look, seconds, f"the deletion of {reference}", context, overdue)
    except (TimeoutError, InterruptedError) as error:
        raise StillExists(str(error)) from None


def _blocking(live: Mapping[str, Any]) -> str:
    is_namespace = live["kind"] == "Namespace"
    finalizers = [
        *(live["metadata"].get("finalizers") or ()),
        *((live.get("spec") or {}).get("finalizers") or () if is_namespace else ()),
    ]
    if not finalizers:
        return "it has no finalizers, so its containers may still be stopping"
    reasons = [
        str(item.get("message"))
        for item in (live.get("status") or {}).get("conditions") or ()
        if is_namespace and item.get("status") == "True"
    ]
    return "; ".join([f"it waits for the finalizers {', '.join(finalizers)}", *reasons])


def _holders(client: Client, reference: Reference, live: Object) -> list[str]:
    """Return what holds back an object that is being deleted, and how to let it go.

    What the user may not read is left out.
    """
    found = [(reference.kind.name, live["metadata"])]
    for kind in _HOLDABLE if reference.kind == NAMESPACE else ():
        with suppress(Refusal, Unreachable):
            found += [(kind.name, each["metadata"]) for each in client.list(kind, reference.name)]
    return [line for name, names in found if (line := held(name, names)) is not None]
