"""What a refresh makes of the inputs when the live object has moved away from them."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.manifest import Object, with_metadata
from scripts.offline.kubernetes_standin.ownership import OWNER_ANNOTATION

_MISSING = object()
_SERVER_MADE = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_NOT_GIVEN = (
    OWNER_ANNOTATION,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)


def drifted(given: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> Object:
    """Return the inputs `given` with every field that has changed on the cluster since.

    A field counts as changed when the live object had another value in it `before`: comparing
    with the input itself would call a quantity that the server respells ("1000m", "1") drift.
    Fields that were not given, such as defaults, status and other managers' own, are left out.
    """
    merged = _merge(given, _readable(given, before), _readable(given, now))
    return merged if isinstance(merged, dict) else {}


def _merge(given: Any, before: Any, now: Any) -> Any:
    if isinstance(given, Mapping) and isinstance(now, Mapping):
        earlier = before if isinstance(before, Mapping) else {}
        merged = {
            key: _merge(value, earlier.get(key, _MISSING), now.get(key, _MISSING))
            for key, value in given.items()
        }
        return {key: value for key, value in merged.items() if value is not _MISSING}
    if before is _MISSING and now is not _MISSING and isinstance(given, str | int | float):
        return now
    if _equal(before, now):
        return given
    if isinstance(given, list) and isinstance(now, list):
        return _merge_list(given, before if isinstance(before, list) else [], now)
    return now


def _merge_list(given: list[Any], before: list[Any], now: list[Any]) -> list[Any]:
    merged = [
        _merge(item, before[index] if index < len(before) else _MISSING, now[index])
        for index, item in enumerate(given[: len(now)])
    ]
    # What admission adds behind the items that were given (a token's volume) is no drift.
    added = now[len(given) :]
    return merged if added == before[len(given) :] else merged + added


def _equal(before: Any, now: Any) -> bool:
    return before is now or (
        before is not _MISSING
        and now is not _MISSING
        and before == now
        and isinstance(before, bool) == isinstance(now, bool)
    )


def _readable(given: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `live` with the `stringData` that a Secret's write-only field was given."""
    texts = given.get("stringData")
    if not isinstance(texts, Mapping):
        return live
    data = live.get("data") or {}
    return {**live, "stringData": {key: _decoded(data[key]) for key in texts if key in data}}


def _decoded(value: Any) -> Any:
    try:
        return base64.b64decode(value).decode()
    except (binascii.Error, UnicodeDecodeError, TypeError):
        return value


def as_inputs(live: Mapping[str, Any]) -> Object:
    """Return the inputs that would make `live`, for an object that the state doesn't know yet."""
    names = dict(live.get("metadata") or {})
    kept = {
        key: value
        for key, value in (names.get("annotations") or {}).items()
        if key not in _NOT_GIVEN
    }
    inputs = {key: value for key, value in live.items() if key != "status"}
    return with_metadata(inputs, **dict.fromkeys(_SERVER_MADE), annotations=kept or None)
