"""What a change means for a run, by the fields of its declaration. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from core.handler import UNKNOWN, Change
from core.problem import quote
from jobs.run.changes import ARTIFACTS, decisive, is_other_content
from jobs.spec import checkpoints

_IN_PLACE = frozenset(
    {
        *("labels", "annotations", "priorityClass", "ttlSecondsAfterFinished", "cleanPodPolicy"),
        *("backoffLimit", "timeout", "startTimeout", "retries", "onCancel", "dependsOn"),
        *("minGpuUtilization", "retryOn", "checkpoint"),
    }
)
"""Fields of a declaration that can't alter a result."""
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

    That is one line; None when no field of the declaration changed. `state` has the run's inputs
    of last time, and its result.
    """
    before, declared = state["declared"], inputs["declared"]
    fields = [*leaves(before, declared)]
    if not any(change.replace for change in changes):
        if inputs.get(ARTIFACTS) is UNKNOWN:
            return "trains again if the jobs before it leave other inputs than last time"
        return f"{_listed(map(_worded, fields))}; nothing is trained" if fields else None
    others = [*leaves(_decisive(state), _decisive(inputs))]
    reasons = [_worded(each) for each in fields if re.split(r"[.\[]", each[0])[0] not in _IN_PLACE]
    reasons += _contents(before, declared, others)
    reasons += [
        f"input {change.path.split('.')[1]} is another file"
        for change in changes
        if is_other_content(change)
    ]
    if not reasons:
        # Slipway renders it otherwise than before: what differs, once for all roles.
        nameless = [(_PLACE.sub("", path), old, new) for path, old, new in others]
        reasons = [*dict.fromkeys(map(_worded, nameless))]
    result = state["result"]
    if result["state"] != "Succeeded":
        reasons.append(f"the last run ended {result['state']}: {result.get('reason', '')}")
    begins = _begins(state, inputs) if "checkpoint" in inputs else ""
    return f"trains again: {_listed(reasons)}{begins}"


def _begins(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Return where a job with checkpoints begins: what succeeded leaves none to go on from."""
    is_same = checkpoints.program(state["manifest"]) == checkpoints.program(inputs["manifest"])
    if is_same and state["result"]["state"] != "Succeeded":
        return "; it resumes from its newest checkpoint, if there is one"
    return "; it begins anew, not from a checkpoint"


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


def _contents(
    before: Mapping[str, Any], declared: Mapping[str, Any], others: Sequence[Leaf]
) -> Iterator[str]:
    """Yield what changed of the program that the declaration does not name: its image or files."""
    images = [now for path, _, now in others if _IMAGE.fullmatch(path)]
    if images and "image" not in before and "image" not in declared:
        what = "the trainer's image"
        if "build" in declared:
            what = f"the image built from {declared['build']['context']}"
        elif "requirements" in declared:
            what = f"the image with the packages of {declared['requirements']}"
        yield f"{what} {'is built anew' if images[0] is UNKNOWN else 'changed'}"
    script = declared.get("script")
    if script == before.get("script") and any(_SCRIPT.fullmatch(path) for path, _, _ in others):
        yield f"script {script} changed"


def _decisive(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a run's properties that can alter its result."""
    manifest, namespace = properties["manifest"], properties["namespace"]
    identity = {"namespace": namespace, "name": manifest["metadata"]["name"]}
    return {**identity, **decisive(manifest)}


def _worded(leaf: Leaf) -> str:
    path, old, new = leaf
    before, now = _value(old), _value(new)
    return f"{path} {'changed' if before == now else f'{before} → {now}'}"


def _value(value: object) -> str:
    if value is None:
        return "unset"
    if value is UNKNOWN:
        return "what is known later"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and len(value) < len(quote(value)):
        return value
    return quote(value)


def _listed(parts: Iterable[str]) -> str:
    first, more = [*parts][:_MOST], [*parts][_MOST:]
    return "; ".join(first) + (f"; and {len(more)} more" if more else "")


def _are_lists(old: Any, new: Any) -> bool:
    are = all(isinstance(each, Sequence) and not isinstance(each, str) for each in (old, new))
    return are and len(old) == len(new)
