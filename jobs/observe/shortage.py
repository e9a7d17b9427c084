"""What a pod requests that no node of its cluster has, in numbers. Pure.

Pods and nodes are the API server's JSON.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from core.fields import gibibytes

Amounts = dict[str, Decimal]
_BYTES = frozenset({"memory", "ephemeral-storage"})
_OVER_QUOTA = re.compile(r"exceeded quota: \S+, requested: (\S+), used: \S+, limited: (\S+)")


def never_fits(pod: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why none of a cluster's nodes could ever hold a pod; None where one may.

    What others have taken of a node is not looked at: the scheduler reports that.
    """
    needed = _requests(pod["spec"])
    selector = (pod["spec"].get("nodeSelector") or {}).items()
    most = _largest(
        _amounts(node["status"].get("allocatable"))
        for node in nodes
        if selector <= (node["metadata"].get("labels") or {}).items()
    )
    # What no node has at all may come with it: a plugin that starts late announces its GPUs.
    lacking = [key for key, value in needed.items() if value > most.get(key, value)]
    if not lacking:
        return None
    allocatable = _listed({key: most[key] for key in sorted(lacking)})
    return f"it asks for {_listed(needed)}, and no node has more than {allocatable} for pods"


def may_fit_quota(refusal: str, pods: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a pod is refused for a quota that it fits once other jobs have ended.

    It never does where what it requests and what the job's own `pods` hold are more than the quota.
    """
    found = _OVER_QUOTA.search(refusal)
    if found is None:
        return False
    requested, limited = (
        _amounts(dict(each.split("=") for each in part.split(","))) for part in found.groups()
    )
    held = [_requests(pod["spec"]) for pod in pods]
    for key, value in requested.items():
        own = (each.get(key.removeprefix("requests."), Decimal(0)) for each in held)
        if value + sum(own) > limited[key]:
            return False
    return True


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod requests: the sum of its containers, or more for an init container."""
    total: Amounts = {}
    for container in spec["containers"]:
        for key, value in _of(container).items():
            total[key] = total.get(key, Decimal(0)) + value
    return _largest([total, *map(_of, spec.get("initContainers") or [])])


def _of(container: Mapping[str, Any]) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests"))


def _largest(amounts: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for each in amounts:
        most |= {key: max(value, most.get(key, value)) for key, value in each.items()}
    return most


def _amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    # The client's own function has no types.
    return {key: parse_quantity(value) for key, value in (quantities or {}).items()}  # type: ignore[no-untyped-call]


def _listed(amounts: Amounts) -> str:
    return ", ".join(
        f"{gibibytes(int(value)) if key in _BYTES else f'{float(value):g}'} "
        f"{'cores' if key == 'cpu' else key}"
        for key, value in amounts.items()
    )
