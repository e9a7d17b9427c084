"""Wait until an object is ready, or gone, and never longer than the limit."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from core.context import Context, Silence
from core.manifests import held
from core.wait import NotYet, until
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.errors import (
    NotReady,
    Refusal,
    StillExists,
    Unreachable,
)
from scripts.offline.kubernetes_standin.kinds import KINDS, Kind, Reference
from scripts.offline.kubernetes_standin.manifest import Object

T = TypeVar("T")
_QUIET_SECONDS = 2.0
_OFTEN_SECONDS = 0.1
_HOLDABLE = (
    Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    Kind("v1", "Pod", "pods"),
    *(KINDS[name] for name in ("PersistentVolumeClaim", "ConfigMap", "Secret", "Service")),
)
"""What is looked through for finalizers in a namespace that does not go away."""


def _namespace(obj: Mapping[str, Any]) -> None:
    phase = (obj.get("status") or {}).get("phase")
    if phase != "Active":
        raise NotYet(f"it is {phase}")


def _volume(obj: Mapping[str, Any]) -> None:
    status = obj.get("status") or {}
    phase = status.get("phase")
    if phase == "Failed":
        raise RuntimeError(_explain(status))
    if phase not in {"Available", "Bound", "Released"}:
        raise NotYet(f"it is {phase}")


def _definition(obj: Mapping[str, Any]) -> None:
    found = {item["type"]: item for item in (obj.get("status") or {}).get("conditions") or ()}
    names = found.get("NamesAccepted", {})
    if names.get("status") == "False":
        raise RuntimeError(f"its names are refused: {_explain(names)}")
    if found.get("Established", {}).get("status") != "True":
        raise NotYet("it is not established yet")


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "CustomResourceDefinition": _definition,
    "Namespace": _namespace,
    "PersistentVolume": _volume,
}
"""Each raises NotYet while the object is not ready, and RuntimeError when it never will be.

Objects of other kinds are ready as soon as they are made.
"""


def until_ready(
    client: Client, reference: Reference, live: Object, seconds: float, context: Context
) -> Object:
    """Return the live object once it is ready.

    Raises:
        NotReady: it failed, the limit has passed, the user cancelled, or it was deleted.
    """
    check = _CHECKS.get(reference.kind.name)
    if check is None:
        return live
    seen = live

    def look() -> Object:
        nonlocal seen
        try:
            found = client.get(reference)
        except Unreachable as error:
            raise NotYet(str(error)) from error
        if found is None:
            raise RuntimeError("someone else deleted it")
        seen = found
        check(found)
        return found

    def overdue(missing: str) -> str:
        return f"{reference} was not ready within {seconds:g} s: {missing}"

    try:
        return _quietly_until(look, seconds, str(reference), context, overdue)
    except RuntimeError as error:
        raise NotReady(f"{reference}: {error}", _conditions(seen), seen) from None
    except (TimeoutError, InterruptedError) as error:
        raise NotReady(str(error), _conditions(seen), seen) from None


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
        _quietly_until(look, seconds, f"the deletion of {reference}", context, overdue)
    except (TimeoutError, InterruptedError) as error:
        raise StillExists(str(error)) from None


def _quietly_until(
    look: Callable[[], T],
    seconds: float,
    what: str,
    context: Context,
    overdue: Callable[[str], str],
) -> T:
    """Wait as `core.wait.until` does, with nothing on the row at first: most take no second."""
    if seconds <= _QUIET_SECONDS:
        return until(look, seconds, what, context, every=_OFTEN_SECONDS, overdue=overdue)
    silence = Silence(context.urn, context.cancelled)
    try:
        return until(look, _QUIET_SECONDS, what, silence, every=_OFTEN_SECONDS)
    except TimeoutError:
        return until(look, seconds - _QUIET_SECONDS, what, context, every=1, overdue=overdue)


def _conditions(obj: Mapping[str, Any]) -> list[str]:
    return [
        f"condition {item.get('type')} is {item.get('status')}: {_explain(item) or '-'}"
        for item in (obj.get("status") or {}).get("conditions") or ()
    ]


def _explain(status: Mapping[str, Any]) -> str:
    """Return the reason and the message in a condition, or in a volume's status."""
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


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
    for kind in _HOLDABLE if reference.kind.name == "Namespace" else ():
        with suppress(Refusal, Unreachable):
            found += [(kind.name, each["metadata"]) for each in client.list(kind, reference.name)]
    return [line for name, names in found if (line := held(name, names)) is not None]
