"""What a pod requests that no node of its cluster has, in numbers. Pure.

Pods and nodes are the API server's JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from core.fields import gibibytes

Amounts = dict[str, Decimal]
_BYTES = frozenset({"memory", "ephemeral-storage"})


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
