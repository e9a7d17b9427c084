"""What the jobs of a stack cost, and which may cost more than they should. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from clusters.pools import NodePool
from core.problem import Problem
from infra.cost import node_price
from infra.cost.prices import PriceTable, default
from jobs.cost import TrainingCost
from jobs.plan import shares
from jobs.spec import TrainingJob


def costs(
    jobs: Sequence[TrainingJob], pools: Sequence[NodePool], own: PriceTable | None
) -> Mapping[str, TrainingCost]:
    """Return what each job costs; those without GPUs, or a price of their nodes, are left out.

    Args:
        jobs: All of them.
        pools: What is paid for.
        own: The stack's own price table; None for the one that comes with Slipway.
    """
    pool = next((each for each in pools if each.gpus), None)
    if pool is None:
        return {}
    table = default() if own is None else own
    price = node_price(pool, table)
    if price is None:
        return {}
    gpus = {job.name: [share.gpus for share in shares(job) if share.gpus] for job in jobs}
    return {
        name: TrainingCost(-(-sum(each) // pool.gpus), len(each), float(price), table.currency)
        for name, each in gpus.items()
        if each
    }


def too_dear(
    jobs: Sequence[TrainingJob], pools: Sequence[NodePool], own: PriceTable | None
) -> Iterator[Problem]:
    """Yield each job that may cost more than its `maxCost`, with what would keep it below.

    All of its attempts are taken to last until its `timeout`, so a job that passes costs no more.
    """
    limited = [job for job in jobs if job.max_cost is not None]
    known = costs(limited, pools, own) if limited else {}
    for job in limited:
        cost = known.get(job.name)
        seconds = job.timeout * (job.retries + 1)
        if cost is not None and job.max_cost is not None and cost.most(seconds) > job.max_cost:
            text = (
                f"{job.max_cost:g} is less than what it may cost until the timeout of its last "
                f"attempt, {cost.most_in_words(seconds)}; lower timeout, retries or workers, or "
                "raise maxCost"
            )
            yield Problem(f"slipway:jobs.{job.name}.maxCost", text)
