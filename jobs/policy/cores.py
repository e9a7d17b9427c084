"""Jobs that ask for more cores than one node of a pool has."""

import operator
from collections.abc import Iterator

from clusters.pools import NodePool
from core.problem import Path
from jobs.policy.rule import Case, Finding, Rule
from jobs.spec.resources import Share, roles, share


def _beyond_a_node(case: Case) -> Iterator[Finding]:
    for role in roles(case.job):
        wanted = share(case.job, role)
        largest = _largest(wanted, case.pools)
        if largest is None or largest.cores is None or wanted.cores <= largest.cores:
            continue
        own = case.job.master if role == "Master" else None
        path: Path = ("master", "cpu") if own is not None and own.cpu is not None else ("cpu",)
        yield Finding(
            path,
            f"{wanted.cpu} cores for each replica are more than the {float(largest.cores):g} that "
            f"pods get of a node of the cluster's pool {largest.name}, {largest.size}, and a "
            "replica is on one node",
            "ask for less and more `workers`, or for larger nodes",
        )


def _largest(wanted: Share, pools: tuple[NodePool, ...]) -> NodePool | None:
    """Return the pool with the most cores of those whose nodes a replica may be on.

    None where that can't be told: with GPUs, those that have as many; without, those with none,
    whose taint it does not tolerate.
    """
    may = [
        pool
        for pool in pools
        if pool.takes_jobs and (pool.gpus >= wanted.gpus if wanted.gpus else not pool.gpus)
    ]
    known = [(pool.cores, pool) for pool in may if pool.cores is not None]
    if len(known) < len(may):
        return None
    return max(known, key=operator.itemgetter(0), default=(None, None))[1]


BEYOND_A_NODE = Rule(
    "cores-beyond-a-node",
    "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
    _beyond_a_node,
)
