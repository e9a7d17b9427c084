"""Jobs that request more than the cluster's nodes can ever have."""

import operator
from collections import Counter
from typing import Literal

from clusters.pools import NodePool
from core.fields import gibibytes
from core.problem import Path
from jobs.plan import fits, shares
from jobs.rules.rule import Finding, Findings, Rule, Surroundings
from jobs.spec import TrainingJob
from jobs.spec.replicas import GPU, Share, roles, share


def _no_gpus(job: TrainingJob, around: Surroundings) -> Findings:
    # Of nccl another rule reports it.
    if around.gpus_per_node != 0 or job.backend == "nccl":
        return
    for role in roles(job):
        if requested := share(job, role).gpus:
            yield Finding(
                _of(job, role, "gpus"),
                f"{requested} can't be had: this cluster has no nodes with GPUs",
                "remove it, or let the cluster have some: `gpu` of the kinds aks and azure-stack, "
                "`gpus` of kubeconfig",
            )


def _gpus_beyond_a_node(job: TrainingJob, around: Surroundings) -> Findings:
    if around.pool is None:
        return
    for role in roles(job):
        requested = share(job, role).gpus
        if requested > around.pool.per_node:
            yield Finding(
                _of(job, role, "gpus"),
                f"{requested} for each {role} is more than the {around.pool.per_node} that a node "
                "has, and a replica is on one node",
                "ask for less and more `workers`, or for larger nodes",
            )


def _gpus_beyond_the_pool(job: TrainingJob, around: Surroundings) -> Findings:
    pool = around.pool
    if pool is None or pool.max_nodes is None:
        return
    requested = [each.gpus for each in shares(job)]
    if max(requested, default=0) > pool.per_node or _fit(requested, pool.per_node, pool.max_nodes):
        return  # What not even one replica gets is another rule's.
    nodes = "1 node" if pool.max_nodes == 1 else f"{pool.max_nodes} nodes"
    yield Finding(
        ("workers",),
        f"{sum(requested)} GPUs in {sum(1 for each in requested if each)} replicas are more than "
        f"there will ever be: {nodes} with {pool.per_node} each",
        "ask for less `workers` or `gpus`, or let the cluster's pool grow to more nodes",
    )


def _fit(requested: list[int], per_node: int, nodes: int) -> bool:
    """Return whether replicas find their GPUs on so many nodes: the largest first."""
    free = [per_node] * nodes
    for each in sorted(filter(None, requested), reverse=True):
        place = next((number for number, left in enumerate(free) if left >= each), None)
        if place is None:
            return False
        free[place] -= each
    return True


def _cores_beyond_a_node(job: TrainingJob, around: Surroundings) -> Findings:
    for role in roles(job):
        requested = share(job, role)
        largest = _largest(requested, around.pools)
        if largest is None or largest.cores is None or requested.cores <= largest.cores:
            continue
        yield Finding(
            _of(job, role, "cpu"),
            f"{requested.cpu} cores for each replica are more than the {float(largest.cores):g} "
            f"that pods get of a node of the cluster's pool {largest.name}, {largest.size}, and a "
            "replica is on one node",
            "ask for less and more `workers`, or for larger nodes",
        )


def _largest(requested: Share, pools: tuple[NodePool, ...]) -> NodePool | None:
    """Return the pool with the most cores of those whose nodes a replica may be on.

    None where that is not known: with GPUs, those that have as many; without, those with none,
    whose taint it does not tolerate.
    """
    may = [
        pool
        for pool in pools
        if pool.takes_jobs and (pool.gpus >= requested.gpus if requested.gpus else not pool.gpus)
    ]
    known = [(pool.cores, pool) for pool in may if pool.cores is not None]
    if len(known) < len(may):
        return None
    return max(known, key=operator.itemgetter(0), default=(None, None))[1]


def _more_than_the_cluster(job: TrainingJob, around: Surroundings) -> Findings:
    requested = shares(job)
    if around.capacity is None or fits(requested, around.capacity):
        return
    about_gpus = (_no_gpus, _gpus_beyond_a_node, _gpus_beyond_the_pool)
    if any(True for find in about_gpus for _ in find(job, around)) or (
        job.backend == "nccl" and around.capacity.gpus == 0
    ):
        return  # That rule's message is clearer.
    kinds = Counter((each.cpu, each.memory, each.gpus) for each in requested)
    listed = " and ".join(
        f"{count} x {cpu} cores, {memory}{f', {gpus} x {GPU}' if gpus else ''}"
        for (cpu, memory, gpus), count in kinds.items()
    )
    cores = sum(each.cores for each in requested)
    memory = gibibytes(sum(each.bytes for each in requested))
    yield Finding(
        (),
        f"its replicas ask for {listed}, together {float(cores):g} cores and {memory}, and the "
        f"cluster could never hold them at the same time: it is {around.capacity}",
        "ask for less `workers`, `cpu`, `memory` or `gpus`",
    )


def _gang_scheduling(job: TrainingJob, _: Surroundings) -> Findings:
    if job.gang_scheduling:
        yield Finding(
            ("gangScheduling",),
            "needs a scheduler that places all pods of a job or none (Volcano, or the coscheduling "
            "plugin), which this stack does not install",
            "leave it out: jobs that would not find room beside each other run one after the other "
            "anyway",
        )


def _of(job: TrainingJob, role: str, field: Literal["gpus", "cpu"]) -> Path:
    """Return where a role's amount is declared: the Master's own, where it has one."""
    is_own = role == "Master" and getattr(job.master, field, None) is not None
    return ("master", field) if is_own else (field,)


_RESOURCES = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
_GPUS = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
RULES = (
    Rule("gpus-without-nodes", _GPUS, _no_gpus),
    Rule("gpus-beyond-a-node", _GPUS, _gpus_beyond_a_node),
    Rule("gpus-beyond-the-pool", "docs/gpus.md#limits-of-a-pool", _gpus_beyond_the_pool),
    Rule("cores-beyond-a-node", _RESOURCES, _cores_beyond_a_node),
    Rule("more-than-the-cluster", _RESOURCES, _more_than_the_cluster),
    Rule(
        "gang-scheduling",
        "https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/job-scheduling/",
        _gang_scheduling,
    ),
)
