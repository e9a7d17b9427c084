"""Wait until an object is ready, and never longer than the limit."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from core.context import Context, Silence
from core.wait import NotYet, until
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.errors import NotReady, Unreachable
from scripts.offline.kubernetes_standin.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    PERSISTENT_VOLUME,
    Kind,
    Reference,
)
from scripts.offline.kubernetes_standin.manifest import Object

T = TypeVar("T")
_QUIET_SECONDS = 2.0
_OFTEN_SECONDS = 0.1


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


_CHECKS: Mapping[Kind, Callable[[Mapping[str, Any]], None]] = {
    CUSTOM_RESOURCE_DEFINITION: _definition,
    NAMESPACE: _namespace,
    PERSISTENT_VOLUME: _volume,
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
    check = _CHECKS.get(reference.kind)
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
        return quietly_until(look, seconds, str(reference), context, overdue)
    except RuntimeError as error:
        raise NotReady(f"{reference}: {error}", _conditions(seen), seen) from None
    except (TimeoutError, InterruptedError) as error:
        raise NotReady(str(error), _conditions(seen), seen) from None


def quietly_until(
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
