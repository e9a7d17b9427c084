"""Wait until an object is ready, or gone, and never longer than its limit."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from core.context import Context
from scripts.offline.kubernetes_standin.awaiting.report import evidence, holders
from scripts.offline.kubernetes_standin.awaiting.verdict import Look, Verdict
from scripts.offline.kubernetes_standin.cluster import Cluster, NoSuchKind
from scripts.offline.kubernetes_standin.kinds import Place
from scripts.offline.kubernetes_standin.manifest import Object, annotation
from scripts.offline.kubernetes_standin.transport import Unreachable

DEFAULT_SECONDS = 600.0
# How long what may pass by itself must last before the wait gives up.
_GRACE_SECONDS = 10.0
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class NotReady(Exception):
    """The object is there, but it did not become ready.

    Args:
        message: What was waited for, and how it ended.
        details: Conditions, events and log lines.
        live: The object as it was last seen.
    """

    def __init__(self, message: str, details: Sequence[str], live: Object) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.live = live


def limit(custom_timeout: float, inputs: Mapping[str, Any]) -> float:
    """Return the limit in seconds: `customTimeouts`, else the annotation, else the default."""
    if custom_timeout > 0:
        return custom_timeout
    given = annotation(inputs, "timeoutSeconds")
    return float(given) if given is not None and given.isdecimal() else DEFAULT_SECONDS


def until_ready(
    cluster: Cluster, obj: Object, look: Look, seconds: float, context: Context
) -> Object:
    """Return the live object once `look` calls it ready.

    Raises:
        NotReady: it failed, the limit has passed, the person cancelled, or it was deleted.
    """
    place = Place.of_object(obj)
    started, pause = time.monotonic(), _FIRST_PAUSE
    failing_since: float | None = None
    shown = ""
    while True:
        verdict = _judge(cluster, obj, look)
        if verdict.state == "ready":
            return obj
        now = time.monotonic()
        if verdict.state != "failing":
            failing_since = None
        elif failing_since is None:
            failing_since = now
        lasted = failing_since is not None and now - failing_since >= _GRACE_SECONDS
        if verdict.state == "failed" or lasted:
            raise NotReady(f"{place}: {verdict.message}", evidence(cluster, obj), obj)
        if now - started >= seconds:
            raise NotReady(
                f"{place} was not ready within {seconds:g} s: {verdict.message}",
                evidence(cluster, obj),
                obj,
            )
        if verdict.message != shown:
            shown = verdict.message
            context.status(shown)
        if context.cancelled.wait(min(pause, seconds)):
            raise NotReady(f"cancelled while waiting for {place}: {verdict.message}", (), obj)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        obj = _again(cluster, place, obj)


def _judge(cluster: Cluster, obj: Object, look: Look) -> Verdict:
    try:
        return look(cluster, obj)
    except Unreachable as error:
        return Verdict("waiting", str(error))


def _again(cluster: Cluster, place: Place, obj: Object) -> Object:
    try:
        live = cluster.get(place)
    except Unreachable:
        return obj
    if live is None:
        raise NotReady(f"{place} was deleted by someone else while it was waited for", (), obj)
    return live


def until_gone(cluster: Cluster, place: Place, seconds: float, context: Context) -> None:
    """Wait until the object, or at least the one that was there, is gone.

    Raises:
        NotReady: it is still there after `seconds`, or the person cancelled.
    """
    started, pause, first_uid, shown = time.monotonic(), _FIRST_PAUSE, "", ""
    while True:
        try:
            live = cluster.get(place)
        except NoSuchKind:
            return
        if live is None or live["metadata"]["uid"] != (first_uid or live["metadata"]["uid"]):
            return
        first_uid = live["metadata"]["uid"]
        blocking = _blocking(live)
        if time.monotonic() - started >= seconds:
            held = "".join(f"\n  {line}" for line in holders(cluster, live))
            raise NotReady(
                f"{place} still exists {seconds:g} s after its deletion was asked for; "
                f"{blocking}{held}",
                evidence(cluster, live),
                live,
            )
        if blocking != shown and pause >= _LONGEST_PAUSE:
            shown = blocking
            context.status(shown)
        if context.cancelled.wait(min(pause, seconds)):
            raise NotReady(f"cancelled while {place} was being deleted; {blocking}", (), live)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _blocking(live: Mapping[str, Any]) -> str:
    finalizers = [
        *(live["metadata"].get("finalizers") or ()),
        *((live.get("spec") or {}).get("finalizers") or () if live["kind"] == "Namespace" else ()),
    ]
    if not finalizers:
        return "it has no finalizers, so its containers may still be stopping"
    reasons = [
        str(item.get("message"))
        for item in (live.get("status") or {}).get("conditions") or ()
        if live["kind"] == "Namespace" and item.get("status") == "True"
    ]
    return "; ".join([f"it waits for the finalizers {', '.join(finalizers)}", *reasons])
