"""Jobs that ask for more GPUs than their cluster can ever have."""

from collections.abc import Iterator
from typing import Literal

from core.problem import Path
from jobs.policy.rule import Case, Finding, Rule
from jobs.spec.resources import roles, share


def are_short(case: Case) -> bool:
    """Return whether a rule of these finds something."""
    finds = (_none_at_all, _beyond_a_node, _beyond_the_pool)
    return any(True for find in finds for _ in find(case))


def _none_at_all(case: Case) -> Iterator[Finding]:
    # Of nccl another rule tells it.
    if case.gpus_per_node != 0 or case.job.backend == "nccl":
        return
    for role in roles(case.job):
        if asked := share(case.job, role).gpus:
            yield Finding(
                _of(role, case),
                f"{asked} can't be had: this cluster has no nodes with GPUs",
                "remove it, or let the cluster have some: `gpu` of the kinds aks and azure-stack, "
                "`gpus` of kubeconfig",
            )


def _beyond_a_node(case: Case) -> Iterator[Finding]:
    if case.pool is None:
        return
    for role in roles(case.job):
        asked = share(case.job, role).gpus
        if asked > case.pool.per_node:
            yield Finding(
                _of(role, case),
                f"{asked} for each {role} is more than the {case.pool.per_node} that a node has, "
                "and a replica is on one node",
                "ask for less and more `workers`, or for larger nodes",
            )


def _beyond_the_pool(case: Case) -> Iterator[Finding]:
    pool = case.pool
    if pool is None or pool.max_nodes is None:
        return
    asked = [
        share(case.job, role).gpus for role, count in roles(case.job).items() for _ in range(count)
    ]
    if max(asked, default=0) > pool.per_node or _fit(asked, pool.per_node, pool.max_nodes):
        return  # What not even one replica gets is another rule's.
    nodes = "1 node" if pool.max_nodes == 1 else f"{pool.max_nodes} nodes"
    yield Finding(
        ("workers",),
        f"{sum(asked)} GPUs in {sum(1 for each in asked if each)} replicas are more than there "
        f"will ever be: {nodes} with {pool.per_node} each",
        "ask for less `workers` or `gpus`, or let the cluster's pool grow to more nodes",
    )


def _fit(asked: list[int], per_node: int, nodes: int) -> bool:
    """Return whether replicas find their GPUs on so many nodes: the largest first."""
    free = [per_node] * nodes
    for each in sorted(filter(None, asked), reverse=True):
        place = next((number for number, left in enumerate(free) if left >= each), None)
        if place is None:
            return False
        free[place] -= each
    return True


def _of(role: Literal["Master", "Worker"], case: Case) -> Path:
    """Return where the number of GPUs of a role is said."""
    own = case.job.master if role == "Master" else None
    if own is not None and own.gpus is not None:
        return ("master", "gpus")
    return ("gpus",)


NONE_AT_ALL = Rule(
    "gpus-without-nodes",
    "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
    _none_at_all,
)
BEYOND_A_NODE = Rule(
    "gpus-beyond-a-node",
    "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
    _beyond_a_node,
)
BEYOND_THE_POOL = Rule("gpus-beyond-the-pool", "docs/gpus.md#limits-of-a-pool", _beyond_the_pool)
