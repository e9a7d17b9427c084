"""What one look at an object says about whether it is ready."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scripts.offline.kubernetes_standin.cluster import Cluster


@dataclass(frozen=True)
class Verdict:
    """The outcome of a look.

    Args:
        state: `ready` and `failed` end the wait; `failing` ends it when it lasts, because it
            may pass (a Secret that is made beside the pod); `waiting` goes on.
        message: What the wait is for, or what is wrong.
    """

    state: Literal["ready", "waiting", "failing", "failed"]
    message: str = ""


READY = Verdict("ready")

Look = Callable[[Cluster, Mapping[str, Any]], Verdict]
"""Judges the live object; may ask the cluster for more. Only ever reads."""


def condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition `kind` in the object's status, empty when it is not there."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == kind:
            return dict(found)
    return {}


def explain(found: Mapping[str, Any]) -> str:
    """Return a condition's reason and message as one text."""
    return ": ".join(str(found[key]) for key in ("reason", "message") if found.get(key))


def is_observed(obj: Mapping[str, Any]) -> bool:
    """Tell whether the controller has seen the newest version of the object."""
    generation = obj["metadata"].get("generation", 0)
    return bool((obj.get("status") or {}).get("observedGeneration", 0) >= generation)
