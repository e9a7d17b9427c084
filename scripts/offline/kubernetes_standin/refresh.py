"""Read: the live object for a refresh, and what has changed on the cluster since it was applied."""

from collections.abc import Mapping
from typing import Any

from scripts.offline.kubernetes_standin.errors import LostCluster, Unreachable, Unserved
from scripts.offline.kubernetes_standin.kinds import Reference
from scripts.offline.kubernetes_standin.manifest import Object, Properties, to_properties
from scripts.offline.kubernetes_standin.provider import KubernetesProvider
from scripts.offline.kubernetes_standin.resource import ResourceRequest

_MISSING = object()


def read(
    provider: KubernetesProvider, request: ResourceRequest, resource_id: str
) -> tuple[Properties, Properties] | None:
    """Return the state of the object as it is now and the inputs that would make it so.

    Returns:
        None when it is gone.

    Raises:
        LostCluster: the cluster can't be reached.
        Unserved: the state does not know the object yet.
    """
    if not request.inputs:
        raise Unserved(
            f"reading {resource_id}, which is not in the state (`pulumi import`, `.get()`)",
            "declare it; PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true takes it over",
        )
    reference = Reference.of_id(request.kind, resource_id)
    try:
        live = provider.client().get(reference)
    except Unreachable as error:
        if provider.delete_unreachable:
            provider.context(request.urn).info(
                f"{error}; deleteUnreachable drops it from the state"
            )
            return None
        raise LostCluster(error) from None
    if live is None:
        return None
    now = drifted(request.obj, request.before, live)
    return request.state_of(live, now), to_properties(now, request.inputs)


def drifted(given: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> Object:
    """Return the inputs `given` with every field that has changed on the cluster since.

    A field counts as changed when the live object had another value in it `before`: comparing
    with the input itself would call a quantity that the server respells ("1000m", "1") drift.
    Fields that were not given, such as defaults, status and other managers' own, are left out.
    """
    merged = _merge(given, before, now)
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
    if _is_equal(before, now):
        return given
    if isinstance(given, list) and isinstance(now, list):
        return _merge_list(given, before if isinstance(before, list) else [], now)
    return now


def _merge_list(given: list[Any], before: list[Any], now: list[Any]) -> list[Any]:
    merged = [
        _merge(item, before[index] if index < len(before) else _MISSING, now[index])
        for index, item in enumerate(given[: len(now)])
    ]
    # What admission adds behind the items that were given is no drift.
    added = now[len(given) :]
    return merged if added == before[len(given) :] else merged + added


def _is_equal(before: Any, now: Any) -> bool:
    return before is now or (
        before is not _MISSING
        and now is not _MISSING
        and before == now
        and isinstance(before, bool) == isinstance(now, bool)
    )
