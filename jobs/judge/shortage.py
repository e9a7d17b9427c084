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
_SCOPES = ("requests.", "limits.")
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Shortage:
    """What is requested, what is available, and whether waiting can't help as the cluster is."""

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
    that are being deleted. `nodes` and `pods` are all of the cluster; with `may_grow` nodes of
    other sizes may come to be.
    """
    needed = _requests(pod["spec"])
    selector = pod["spec"].get("nodeSelector") or {}
    request = f"it asks for {_listed(needed)}"
    labelled = [(node, node["metadata"].get("labels") or {}) for node in nodes]
    matching = [node for node, labels in labelled if selector.items() <= labels.items()]
    if not matching:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
        which = f"none of {len(nodes)} nodes has the labels {labels}" if nodes else "there is none"
        return Shortage(f"{request}, and {which}", final=False)
    # What no node has at all may come with it: a plugin that starts late announces its GPUs.
    room = {
        each["metadata"]["name"]: _amounts(each["status"].get("allocatable")) for each in matching
    }
    most = _largest(room.values())
    never = {key for key, value in needed.items() if value > most.get(key, value)}
    if never and not may_grow:
        allocatable = _listed({key: most[key] for key in sorted(never)})
        return Shortage(f"{request}, and no node has more than {allocatable} for pods", final=True)
    for other in pods:
        name = other["spec"].get("nodeName")
        leaves = "deletionTimestamp" in other["metadata"]
        if name in room and not leaves and other.get("status", {}).get("phase") not in _ENDED:
            room[name] = _sum(room[name], _requests(other["spec"]), times=-1)
    free = room.values()
    if any(all(value <= each.get(key, _NONE) for key, value in needed.items()) for each in free):
        return None
    most_free = _largest(free)
    listed = _listed({key: most_free.get(key, _NONE) for key in needed})
    return Shortage(f"{request}, and the most that a node has free is {listed}", final=False)


def over_quota(job: Mapping[str, Any], quotas: Iterable[Mapping[str, Any]]) -> Shortage | None:
    """Return which ResourceQuota all pods of a PyTorchJob exceed; None where it fits into all."""
    requested: Amounts = {}
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        each = _counted(replicas["template"]["spec"])
        requested = _sum(requested, each, times=replicas["replicas"])
    for quota in quotas:
        hard = _amounts((quota.get("status") or {}).get("hard") or quota["spec"].get("hard"))
        over = {key for key in hard if requested.get(key, 0) > hard[key]}
        if over:
            key = min(over)
            name = quota["metadata"]["name"]
            text = f"the job asks for {_one(key, requested[key])}, and quota {name} has "
            return Shortage(f"{text}{_one(key, hard[key])} in all", final=True)
    return None


def _counted(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod counts for in each possible quota."""
    requests, limits = _requests(spec), _of_containers(spec, "limits")
    return {
        "pods": Decimal(1),
        "count/pods": Decimal(1),
        **requests,
        **{f"requests.{key}": value for key, value in requests.items()},
        **{f"limits.{key}": value for key, value in limits.items()},
    }


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what a pod requests: the sum of its containers, or more for an init container."""
    inits = [{"containers": [each]} for each in spec.get("initContainers") or []]
    return _largest(_of_containers(each, "requests") for each in (spec, *inits))


def _of_containers(spec: Mapping[str, Any], kind: str) -> Amounts:
    total: Amounts = {}
    for container in spec["containers"]:
        total = _sum(total, _amounts((container.get("resources") or {}).get(kind)))
    return total


def _largest(amounts: Iterable[Amounts]) -> Amounts:
    most: Amounts = {}
    for each in amounts:
        most |= {key: max(value, most.get(key, value)) for key, value in each.items()}
    return most


def _sum(some: Amounts, others: Amounts, times: int = 1) -> Amounts:
    return {key: some.get(key, _NONE) + others.get(key, _NONE) * times for key in some | others}


def _amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    # The client's own function has no types.
    return {key: parse_quantity(value) for key, value in (quantities or {}).items()}  # type: ignore[no-untyped-call]


def _listed(amounts: Amounts) -> str:
    return ", ".join(_one(key, value) for key, value in amounts.items())


def _one(key: str, value: Decimal) -> str:
    scope, _, name = key.rpartition(".") if key.startswith(_SCOPES) else ("", "", key)
    amount = gibibytes(int(value)) if name in _BYTES else f"{float(value):g}"
    unit = "cores" if name == "cpu" else name
    return f"{amount} {unit} ({scope})" if scope else f"{amount} {unit}"
