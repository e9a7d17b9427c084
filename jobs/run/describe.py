"""What a change means for a run, by the fields of its declaration. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from core.handler import UNKNOWN, Change
from core.problem import quote
from jobs.run.changes import ARTIFACTS, decisive, is_other_content

_IN_PLACE = frozenset(
    {
        *("labels", "annotations", "priorityClass", "ttlSecondsAfterFinished", "cleanPodPolicy"),
        *("backoffLimit", "timeout", "startTimeout", "retries", "onCancel", "dependsOn"),
    }
)
"""Fields of a declaration that can't alter a result."""
_NAMES = {
    "timeoutSeconds": "timeout",
    "startTimeoutSeconds": "startTimeout",
    "priorityClassName": "priorityClass",
}
_SILENT = frozenset({ARTIFACTS, "declared", "kubeconfig", "retries", "onCancel"})
"""Properties that mean nothing to a user where the earlier declaration is not known."""
_PLAIN = re.compile(r"[^\s\"'{}\[\]]+")
_IMAGE = re.compile(r".*\.containers\[\d+\]\.image")
_SCRIPT = re.compile(r".*\.volumes\[\d+\]\.configMap\..*")
_PLACE = re.compile(r"pytorchReplicaSpecs\.(\w+\.template\.spec\.)?")
_MOST = 5

Leaf = tuple[str, Any, Any]
"""A path, its former value, and its present value; None for nothing."""


def describe(
    changes: Sequence[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> str | None:
    """Return what `changes` mean: which field, from what to what, and whether it trains again.

    Args:
        changes: Of the run's properties.
        state: Its inputs of last time, and its result.
        inputs: Its inputs now.

    Returns:
        One line; None when no field of the declaration changed.
    """
    if not any(change.replace for change in changes):
        if inputs.get(ARTIFACTS) is UNKNOWN:
            return "trains again if the jobs before it leave other inputs than last time"
        fields = list(_in_place(changes, state, inputs))
        return f"{_listed(fields)}; nothing is trained" if fields else None
    reasons = list(_declared(state, inputs, in_place=False))
    reasons += _image(state, inputs)
    reasons += _script(state, inputs)
    reasons += [
        f"input {_input(each)} is another file" for each in changes if is_other_content(each)
    ]
    # Without what was declared before, and after a change in how Slipway renders it.
    reasons = reasons or [
        f"{path} {_transition(old, new)}" for path, old, new in _decisive(state, inputs)
    ]
    result = state["result"]
    if result["state"] != "Succeeded":
        reasons.append(f"the last run ended {result['state']}: {result.get('reason', '')}")
    return f"trains again: {_listed(reasons)}"


def leaves(old: Any, new: Any, path: str = "") -> Iterator[Leaf]:
    """Yield where two values differ, as deep as they are maps, or lists of one length."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from leaves(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif _are_lists(old, new):
        for index, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from leaves(before, now, f"{path}[{index}]")
    elif old != new:
        yield path, old, new


def _in_place(
    changes: Sequence[Change], state: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Iterator[str]:
    if state.get("declared") is not None:
        yield from _declared(state, inputs, in_place=True)
        return
    names = dict.fromkeys(_name(change.path) for change in changes)
    yield from (f"{name} changed" for name in names if name not in _SILENT)


def _declared(
    state: Mapping[str, Any], inputs: Mapping[str, Any], *, in_place: bool
) -> Iterator[str]:
    """Yield the fields that were declared otherwise: all, or those that alter the result."""
    old, new = state.get("declared"), inputs.get("declared")
    if old is None or new is None:
        return
    for path, before, now in leaves(old, new):
        if in_place or re.split(r"[.\[]", path)[0] not in _IN_PLACE:
            yield f"{path} {_transition(before, now)}"


def _image(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield that an image changed which the declaration does not name."""
    declared = inputs.get("declared") or {}
    found = next((leaf for leaf in _all(state, inputs) if _IMAGE.fullmatch(leaf[0])), None)
    if found is None or "image" in declared or "image" in (state.get("declared") or {}):
        return
    what = "the trainer's image"
    if "build" in declared:
        what = f"the image built from {declared['build']['context']}"
    yield f"{what} {'is built anew' if found[2] is UNKNOWN else 'changed'}"


def _script(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the content of a script changed; another path is in the declaration."""
    before, now = ((each.get("declared") or {}).get("script") for each in (state, inputs))
    if (before is None or before == now) and any(
        _SCRIPT.fullmatch(path) for path, _, _ in _all(state, inputs)
    ):
        yield f"script {now} changed" if now is not None else "its script changed"


def _decisive(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Leaf]:
    """Yield what differs besides the image and the script, each once for all roles."""
    seen = set()
    names = leaves(_identity(state), _identity(inputs))
    for path, old, new in chain(names, _all(state, inputs)):
        short = _PLACE.sub("", path)
        if short not in seen and not _IMAGE.fullmatch(path) and not _SCRIPT.fullmatch(path):
            seen.add(short)
            yield short, old, new


def _all(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> Iterator[Leaf]:
    return leaves(decisive(state["manifest"]), decisive(inputs["manifest"]))


def _identity(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "namespace": properties["namespace"],
        "name": properties["manifest"]["metadata"]["name"],
    }


def _name(path: str) -> str:
    """Return the declaration's name for a property that can be changed in place."""
    words = re.findall(r"\w+", path)
    if "runPolicy" in words:
        return str(words[-1])
    last: str = next((word for word in words if word in {"labels", "annotations"}), words[-1])
    return _NAMES.get(last, last)


def _input(change: Change) -> str:
    """Return the name of the input whose artifact changed."""
    return change.path.split(".")[1]


def _transition(old: object, new: object) -> str:
    before, now = _value(old), _value(new)
    return "changed" if before == now else f"{before} → {now}"


def _value(value: object) -> str:
    if value is None:
        return "unset"
    if value is UNKNOWN:
        return "what is known later"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and len(value) < len(quote(value)):
        return value
    return quote(value)


def _listed(parts: Sequence[str]) -> str:
    more = f"; and {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return "; ".join(parts[:_MOST]) + more


def _are_lists(old: Any, new: Any) -> bool:
    are = all(isinstance(each, Sequence) and not isinstance(each, str) for each in (old, new))
    return are and len(old) == len(new)
