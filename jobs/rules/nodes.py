"""Rules for jobs that request more than the cluster's nodes can ever provide."""

import operator
from collections import Counter
from decimal import Decimal

from clusters.nodes import Capacity, NodePool
from core.fields import gibibytes
from jobs.model.job import TrainingJob
from jobs.model.names import GPU
from jobs.model.program import Share, roles, share
from jobs.plan import fits, shares
from jobs.rules.rule import NO_GPUS_REMEDY, Finding, Findings, Surroundings, place, rule

_RESOURCES = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"


@rule("https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/")
def _gpus_beyond_a_node(job: TrainingJob, around: Surroundings) -> Findings:
    most = around.gpus_per_node
    # Another rule reports nccl on a cluster without GPUs.
    if most is None or (most == 0 and job.backend == "nccl"):
        return
    for role in roles(job):
        if (requested := share(job, role).gpus) > most:
            remedy = "request fewer per replica and use more `workers`, or use larger nodes"
            reason = f"{requested} for each {role} is more than the {most} that a node has"
            reason += ", and a replica must fit on one node"
            if most == 0:
                reason = f"{requested} can't be provided: this cluster has no nodes with GPUs"
                remedy = f"remove it, or {NO_GPUS_REMEDY}"
            yield Finding(place(job, role, "gpus"), reason, remedy)


@rule("docs/gpus.md#limits-of-a-pool")
def _gpus_beyond_the_pool(job: TrainingJob, around: Surroundings) -> Findings:
    pool = around.pool
    if pool is None or pool.max_nodes is None:
        return
    requested = [each for each in shares(job) if each.gpus]
    # Given enough cores and memory, only the GPUs count.
    cores, memory = sum(each.cores for each in requested), sum(each.bytes for each in requested)
    most = Capacity(Decimal(cores), memory, pool.per_node, pool.max_nodes)
    if any(each.gpus > pool.per_node for each in requested) or fits(requested, most):
        return  # Another rule reports a single replica that is too large.
    nodes = "1 node" if pool.max_nodes == 1 else f"{pool.max_nodes} nodes"
    yield Finding(
        ("workers",),
        f"{sum(each.gpus for each in requested)} GPUs in {len(requested)} replicas are more than "
        f"the pool can provide: {nodes} with {pool.per_node} each",
        "request fewer `workers` or `gpus`, or let the cluster's pool grow to more nodes",
    )


@rule(_RESOURCES)
def _cores_beyond_a_node(job: TrainingJob, around: Surroundings) -> Findings:
    for role in roles(job):
        requested = share(job, role)
        largest = _largest(requested, around.pools)
        if largest is None or requested.cores <= largest[0]:
            continue
        cores, pool = largest
        yield Finding(
            place(job, role, "cpu"),
            f"each replica requests {requested.cpu} cores, but a node in the cluster's pool "
            f"{pool.name}, {pool.size}, has only {float(cores):g} available to pods, and a replica "
            "must fit on one node",
            "request fewer per replica and use more `workers`, or use larger nodes",
        )


def _largest(requested: Share, pools: tuple[NodePool, ...]) -> tuple[Decimal, NodePool] | None:
    """Return the most cores that a replica can use on any node, and the pool that has such nodes.

    Returns None if a pool's cores are unknown. GPU nodes' taint excludes replicas without GPUs.
    """
    may = [
        pool
        for pool in pools
        if pool.takes_jobs and (pool.gpus >= requested.gpus if requested.gpus else not pool.gpus)
    ]
    sized = [(pool.cores, pool) for pool in may if pool.cores is not None]
    return max(sized, key=operator.itemgetter(0)) if sized and len(sized) == len(may) else None


@rule(_RESOURCES)
def _more_than_the_cluster(job: TrainingJob, around: Surroundings) -> Findings:
    requested = shares(job)
    if around.capacity is None or fits(requested, around.capacity):
        return
    about_gpus = (_gpus_beyond_a_node, _gpus_beyond_the_pool)
    if any(True for each in about_gpus for _ in each.find(job, around)) or (
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
        f"its replicas request {listed}, in total {float(cores):g} cores and {memory}, but the "
        f"cluster can never hold them at the same time: it has {around.capacity}",
        "request fewer `workers` or `gpus`, or less `cpu` or `memory`",
    )
