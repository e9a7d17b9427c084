"""Wait until an object is ready, or gone, and never longer than the limit."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pulumi.provider.experimental.property_value import PropertyValue

from core.context import Context, Silence
from core.manifests import condition, held, holds
from core.wait import NotYet, until
from scripts.offline.kubernetes_standin.client import Client, Refusal, Unreachable
from scripts.offline.kubernetes_standin.kinds import KINDS, Kind, Reference
from scripts.offline.kubernetes_standin.manifest import Object

T = TypeVar("T")
_QUIET_SECONDS = 2.0
_HOLDABLE = (
    Kind("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    Kind("v1", "Pod", "pods"),
    *(KINDS[name] for name in ("PersistentVolumeClaim", "ConfigMap", "Secret", "Service")),
)
"""What is looked through for finalizers in a namespace that does not go away."""


_PHASES: Mapping[str, frozenset[str]] = {
    "Namespace": frozenset({"Active"}),
    "PersistentVolume": frozenset({"Available", "Bound", "Released"}),
}
"""By kind, the phases in which an object is ready."""
_DEFINITION = "CustomResourceDefinition"


class NotReady(Exception):
    """The object was made, but did not become ready; the state keeps it, and `up` tries again."""

    id = ""
    state: Mapping[str, PropertyValue] = {}
    """Of the resource, set by who knows them."""

    def __init__(self, message: str, conditions: list[str], live: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.reasons = (message, *conditions)
        self.live = live


def _check(reference: Reference, obj: Object) -> None:
    """Raise NotYet while an object is not ready, and RuntimeError when it never will be."""
    if reference.kind.name == _DEFINITION:
        names = condition(obj, "NamesAccepted")
        if names.get("status") == "False":
            raise RuntimeError(f"{reference}: its names are refused: {_explain(names)}")
        if not holds(obj, "Established"):
            raise NotYet("it is not established yet")
        return
    status = obj.get("status") or {}
    phase = status.get("phase")
    if phase == "Failed":
        raise RuntimeError(f"{reference}: {_explain(status)}")
    if phase not in _PHASES[reference.kind.name]:
        raise NotYet(f"it is {phase}")


def until_ready(
    client: Client, reference: Reference, seconds: float, context: Context, live: Object
) -> Object:
    """Return the live object once it is ready: one of most kinds is as soon as it is made.

    Raises:
        NotReady: it failed, the limit has passed, the user cancelled, or it was deleted.
    """
    if reference.kind.name not in {_DEFINITION, *_PHASES}:
        return live
    seen = live

    def look() -> Object:
        nonlocal seen
        try:
            found = client.get(reference)
        except Unreachable as error:
            raise NotYet(str(error)) from error
        if found is None:
            raise RuntimeError(f"{reference}: someone else deleted it")
        seen = found
        _check(reference, found)
        return found

    def overdue(missing: str) -> str:
        return f"{reference} was not ready within {seconds:g} s: {missing}"

    try:
        return _quietly_until(look, seconds, str(reference), context, overdue)
    except (RuntimeError, TimeoutError, InterruptedError) as error:
        conditions = [
            f"condition {item['type']} is {item['status']}: {_explain(item) or '-'}"
            for item in (seen.get("status") or {}).get("conditions") or ()
        ]
        raise NotReady(str(error), conditions, seen) from None


def until_gone(client: Client, reference: Reference, seconds: float, context: Context) -> None:
    """Wait until the object, or at least the one that exists now, is gone.

    Raises:
        TimeoutError, InterruptedError: it still exists after `seconds`, or the user cancelled.
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

    _quietly_until(look, seconds, f"the deletion of {reference}", context, overdue)


def _quietly_until(
    look: Callable[[], T],
    seconds: float,
    what: str,
    context: Context,
    overdue: Callable[[str], str],
) -> T:
    """Wait as `core.wait.until` does, with nothing on the row at first: most take no second."""
    silence = Silence(context.urn, context.cancelled)
    quiet = min(seconds, _QUIET_SECONDS)
    try:
        return until(look, quiet, what, silence, every=0.1)
    except TimeoutError:
        return until(look, seconds - quiet, what, context, every=1, overdue=overdue)


def _explain(status: Mapping[str, Any]) -> str:
    """Return the reason and the message in a condition, or in a volume's status."""
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


def _blocking(live: Mapping[str, Any]) -> str:
    # A namespace has some in its spec, too.
    places = (live["metadata"], live.get("spec") or {})
    finalizers = [each for place in places for each in place.get("finalizers") or ()]
    if not finalizers:
        return "it has no finalizers, so its containers may still be stopping"
    reasons = [
        str(item.get("message"))
        for item in (live.get("status") or {}).get("conditions") or ()
        if live["kind"] == "Namespace" and item.get("status") == "True"
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
