"""Why a cluster has no room for a job's pods, in numbers, and whether it ever can. Pure.

Pods, nodes and quotas are the API server's JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from core.fields import gibibytes

Amounts = dict[str, Decimal]
_NONE = Decimal(0)
_BYTES = frozenset({"memory", "ephemeral-storage"})
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Shortage:
    """Something that is lacking.

    Args:
        text: What is requested, and what is available.
        final: Whether waiting can't help, as the cluster is.
    """

    text: str
    final: bool


def without_node(
    pod: Mapping[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
    *,
    may_grow: bool,
) -> Shortage | None:
    """Return what a pod that has no node lacks; None where a node has room for it.

    For such a pod the scheduler waits for something else for a moment: for its volume, or for pods
    that are being deleted.

    Args:
        pod: The pod.
        nodes: All of the cluster.
        pods: All of the cluster: those on the nodes take room.
        may_grow: Whether nodes of other sizes may come to be.
    """
    needed = _requests(pod["spec"])
    selector = pod["spec"].get("nodeSelector") or {}
    request = f"it asks for {_listed(needed)}"
    matching = [node for node in nodes if selector.items() <= _labels(node).items()]
    if not matching:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
        which = f"none of {len(nodes)} nodes has the labels {labels}" if nodes else "there is none"
        return Shortage(f"{request}, and {which}", final=False)
    # What no node has at all may come with it: a plugin that starts late announces its GPUs.
    most = _largest(map(_allocatable, matching))
    never = {key for key, value in needed.items() if value > most.get(key, value)}
    if never and not may_grow:
        allocatable = _listed({key: most[key] for key in sorted(never)})
        return Shortage(f"{request}, and no node has more than {allocatable} for pods", final=True)
    taken: dict[str, Amounts] = {}
    for other in pods:
        name = other["spec"].get("nodeName")
        leaves = "deletionTimestamp" in other["metadata"]
        if name is not None and not leaves and other.get("status", {}).get("phase") not in _ENDED:
            taken[name] = _plus(taken.get(name, {}), _requests(other["spec"]))
    free = [_less(_allocatable(node), taken.get(node["metadata"]["name"], {})) for node in matching]
    if any(all(value <= each.get(key, _NONE) for key, value in needed.items()) for each in free):
        return None
    listed = _listed({key: _largest(free).get(key, _NONE) for key in needed})
    return Shortage(f"{request}, and the most that a node has free is {listed}", final=False)


def over_quota(job: Mapping[str, Any], quotas: Iterable[Mapping[str, Any]]) -> Shortage | None:
    """Return which quota of its namespace all pods of a job exceed; None where it fits into all.

    Args:
        job: The PyTorchJob.
        quotas: The namespace's ResourceQuotas.
    """
    requested: Amounts = {}
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        each = _counted(replicas["template"]["spec"])
        requested = _plus(
            requested, {key: value * replicas["replicas"] for key, value in each.items()}
        )
    for quota in quotas:
        hard = _amounts((quota.get("status") or {}).get("hard") or quota["spec"].get("hard") or {})
        over = {key for key in hard if requested.get(key, 0) > hard[key]}
        if over:
            key = min(over)
            name = quota["metadata"]["name"]
            text = f"the job asks for {_listed({key: requested[key]})}, and quota {name} has "
            return Shortage(f"{text}{_listed({key: hard[key]})} in all", final=True)
    return None


def _counted(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod counts for in each possible quota."""
    requests, limits = _requests(spec), _sum(spec, "limits")
    return {
        "pods": Decimal(1),
        "count/pods": Decimal(1),
        **requests,
        **{f"requests.{key}": value for key, value in requests.items()},
        **{f"limits.{key}": value for key, value in limits.items()},
    }


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod requests: the sum of its containers, or more for an init container."""
    first = [_amounts((each.get("resources") or {}).get("requests") or {})
             for each in spec.get("initContainers") or []]  # fmt: skip
    return _largest([_sum(spec, "requests"), *first])


def _sum(spec: Mapping[str, Any], kind: str) -> Amounts:
    total: Amounts = {}
    for container in spec["containers"]:
        total = _plus(total, _amounts((container.get("resources") or {}).get(kind) or {}))
    return total


def _largest(amounts: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for each in amounts:
        for key, value in each.items():
            most[key] = max(value, most.get(key, value))
    return most


def _plus(some: Amounts, others: Amounts) -> Amounts:
    return {key: some.get(key, _NONE) + others.get(key, _NONE) for key in some | others}


def _less(amounts: Amounts, taken: Amounts) -> Amounts:
    return {key: value - taken.get(key, _NONE) for key, value in amounts.items()}


def _allocatable(node: Mapping[str, Any]) -> Amounts:
    return _amounts(node["status"].get("allocatable") or {})


def _amounts(quantities: Mapping[str, Any]) -> Amounts:
    # The client's own function has no types.
    return {key: parse_quantity(value) for key, value in quantities.items()}  # type: ignore[no-untyped-call]


def _labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    return labels


def _listed(amounts: Amounts) -> str:
    return ", ".join(_one(key, value) for key, value in amounts.items())


def _one(key: str, value: Decimal) -> str:
    scope, _, name = (
        key.rpartition(".") if key.startswith(("requests.", "limits.")) else ("", "", key)
    )
    kind = f" ({scope})" if scope else ""
    if name == "cpu":
        return f"{float(value):g} cores{kind}"
    if name in _BYTES:
        return f"{gibibytes(int(value))} {name}{kind}"
    return f"{float(value):g} {name}{kind}"
