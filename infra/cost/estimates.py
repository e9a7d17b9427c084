"""Estimate the cost of a stack's nodes and jobs. Pools without a known price are listed as such."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

import pulumi

from clusters.azure import facts
from clusters.nodes import NodePool
from core.context import show_in_summary
from core.problem import Problem
from infra.cost.prices import Price, PriceTable, default
from jobs.model.job import TrainingJob
from jobs.observe.progress import duration
from jobs.plan import TrainingCost, shares

_HOURS_OF_MONTH = 730
_FRESH = 90
"""Number of days after which recorded prices, sizes and regions may be out of date."""


def announce(pools: Sequence[NodePool], own: PriceTable | None) -> None:
    """Log the cost of the pools, using the stack's own price table or, if it is None, Slipway's."""
    if pools:
        table, today = own or default(), datetime.now().astimezone().date()
        show_in_summary(estimate(pools, table), pulumi.log.info)
        if (text := outdated(pools, table, today)) is not None:
            show_in_summary(text, pulumi.log.warn)


def outdated(pools: Sequence[NodePool], table: PriceTable, today: date) -> str | None:
    """Return a warning if prices or sizes are more than `_FRESH` days old, or else None."""
    prices = (price for price in map(table.price_in, pools) if price is not None)
    oldest = min([facts.READ, *(each.source.date for each in prices if each.source is not None)])
    if (today - oldest).days <= _FRESH:
        return None
    text = f"prices, sizes and regions date from {oldest}, more than {_FRESH} days ago, and may be"
    return f"{text} out of date (docs/costs.md#your-own-prices)"


def estimate(pools: Sequence[NodePool], table: PriceTable) -> str:
    """Describe the pools, their hourly and monthly cost, and the sources of the prices."""
    currency = table.currency
    prices = [(pool, table.price_in(pool)) for pool in pools]
    priced = [(pool, price) for pool, price in prices if price is not None]
    unknown = ", ".join(pool.name for pool, price in prices if price is None)
    lines = ["what the stack requests, and what it costs per hour:"]
    lines += [f"{_nodes(pool)}: {_amount(pool, price, currency)}" for pool, price in prices]
    sure = (pool.min_nodes * price.amount for pool, price in priced if not price.capped)
    least = sum(sure, Decimal(0))
    if priced:
        most = sum((pool.max_nodes * price.amount for pool, price in priced), Decimal(0))
        without = f", excluding {unknown}" if unknown else ""
        lines.append(f"total: {currency} {_range(_money(least), _money(most))} an hour{without}")
    if least:
        amount = f"{'at least ' if unknown else ''}{currency} {least * _HOURS_OF_MONTH:,.0f}"
        lines.append(f"per month ({_HOURS_OF_MONTH} hours), at the minimum node count: {amount}")
    if unknown:
        lines.append(
            f"no estimate for {unknown}; to use a table with your own prices, run "
            f"`pulumi config set slipway:prices FILE` (docs/costs.md)"
        )
    sources = dict.fromkeys(price.source for _, price in priced if price.source is not None)
    lines += [f"prices as of {each.date}, from {each.publisher}: {each.url}" for each in sources]
    if table.not_included and sources:
        lines.append(f"not included: {', '.join(table.not_included)}")
    return "\n  ".join(lines)


def most(pools: Sequence[NodePool], table: PriceTable) -> Decimal | None:
    """Return the hourly cost of the pools at their maximum size, or None if a price is missing."""
    prices = [(pool.max_nodes, table.price_in(pool)) for pool in pools]
    amounts = [nodes * price.amount for nodes, price in prices if price is not None]
    return sum(amounts, Decimal(0)) if len(amounts) == len(prices) else None


def _nodes(pool: NodePool) -> str:
    gpus = f", each with {pool.gpus} GPU{'' if pool.gpus == 1 else 's'}" if pool.gpus else ""
    spot = ", spot" if pool.spot else ""
    network = f", {pool.network}" if pool.network else ""
    count = _range(str(pool.min_nodes), str(pool.max_nodes))
    return f"{pool.name}: {count} x {pool.size} in {pool.region}{gpus}{spot}{network}"


def _amount(pool: NodePool, price: Price | None, currency: str) -> str:
    if price is None:
        return f"no price for these {'spot nodes' if pool.spot else 'nodes'} on {pool.provider}"
    most = _money(pool.max_nodes * price.amount)
    if not price.capped:
        return f"{currency} {_range(_money(pool.min_nodes * price.amount), most)}"
    why = f"no price for spot nodes, {price.capped}: {_money(price.amount)}"
    return f"at most {currency} {most} ({why})"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _money(amount: Decimal) -> str:
    """Return an amount with three decimals, since the smallest nodes cost less than a cent."""
    return f"{amount:,.3f}" if amount else "0"


def of_jobs(
    jobs: Sequence[TrainingJob], pools: Sequence[NodePool], own: PriceTable | None
) -> Mapping[str, TrainingCost]:
    """Return each GPU job's cost, keyed by job name; empty if a GPU pool's price is unknown."""
    # A job may run on any pool with GPUs, and all of their nodes have the same number of GPUs.
    pools = [each for each in pools if each.gpus]
    if not pools:
        return {}
    table = own or default()
    amounts = [float(price.amount) for each in pools if (price := table.price_in(each))]
    if len(amounts) < len(pools):
        return {}
    per_node, cheapest, hourly = pools[0].gpus, min(amounts), max(amounts)
    return {
        job.name: TrainingCost(
            fewest=-(-sum(each) // per_node),
            nodes=len(each),
            hourly=hourly,
            currency=table.currency,
            cheapest=None if cheapest == hourly else cheapest,
        )
        for job in jobs
        if (each := [share.gpus for share in shares(job) if share.gpus])
    }


def too_dear(
    jobs: Sequence[TrainingJob], pools: Sequence[NodePool], own: PriceTable | None
) -> Iterator[Problem]:
    """Yield a problem for each job whose cost could exceed its `maxCost`, or is unknown."""
    for job in jobs:
        if (limit := job.max_cost) is None or not any(each.gpus for each in shares(job)):
            continue
        cost, table = of_jobs([job], pools, own).get(job.name), own or default()
        seconds, text = job.timeout * (job.retries + 1) + job.hold, ""
        if cost is None:
            unknown = (each for each in pools if each.gpus and not table.price_in(each))
            nodes = ", ".join(f"{each.size} in {each.region}" for each in unknown)
            text = f"{limit:g} can't be checked, because there is no price for "
            text += (
                f"{nodes}; set slipway:prices to a table that has one (docs/costs.md), or remove it"
                if nodes
                else "the GPU nodes of an existing cluster; remove it"
            )
        elif cost.most(seconds) > limit:
            text = (
                f"{limit:g} is less than the job could cost if every attempt ran until its "
                f"timeout, {cost.most_in_words(seconds)}; lower timeout ({duration(job.timeout)} "
                "per attempt), retries or workers, or raise maxCost"
            )
        if text:
            yield Problem(f"slipway:jobs.{job.name}.maxCost", text)
