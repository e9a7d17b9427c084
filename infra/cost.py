"""What a stack's nodes cost, in words, before anything is made. Pure but for `announce`.

Nothing is guessed: what the table has no price for is named, and left out of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pulumi

from clusters.pools import NodePool
from core import summary
from infra.prices.files import ours
from infra.prices.table import Price, PriceTable, Source

HOURS_OF_MONTH = 730
WHERE = "docs/costs.md"
_OLD = 365  # days


@dataclass(frozen=True)
class Cost:
    """What a pool costs by the hour.

    Args:
        pool: Which.
        price: Of one node, or the most that one costs; None where the table has none.
        capped: Whether it is the most only: an ordinary price, for a spot node. That of a spot node
            is never above it: https://learn.microsoft.com/azure/virtual-machines/linux/spot-template
        limit: Of a spot node without a price, what the person pays for it at most.
    """

    pool: NodePool
    price: Price | None = None
    capped: bool = False
    limit: Decimal | None = None

    @property
    def node(self) -> Decimal | None:
        """What one node costs at most; None where nothing is known of it."""
        amounts = (None if self.price is None else self.price.amount, self.limit)
        return min((each for each in amounts if each is not None), default=None)

    @property
    def least(self) -> Decimal:
        """With as few nodes as there may be; 0 where nothing is known of it."""
        if self.price is None or self.capped:
            return Decimal(0)
        return self.pool.min_nodes * self.price.amount

    @property
    def most(self) -> Decimal:
        """With as many nodes as there may be; 0 where nothing is known of it."""
        return Decimal(0) if self.node is None else self.pool.max_nodes * self.node


def announce(pools: Sequence[NodePool], own: PriceTable | None) -> None:
    """Say what the stack asks for and what that costs; of no pools there is nothing.

    In an update too: `make up` makes it without a preview.

    Args:
        pools: What somebody is paid for.
        own: The person's price table; None for the repository's.
    """
    if pools:
        table = ours() if own is None else own
        today = datetime.now().astimezone().date()
        summary.tell(told(pools, table, today), pulumi.log.info)


def told(pools: Sequence[NodePool], table: PriceTable, today: date) -> str:
    """Return what the pools are, what they cost by the hour, and who says so.

    Args:
        pools: Of one stack, one at least.
        table: The prices.
        today: What their age is reckoned to.
    """
    costs = [_cost(pool, table) for pool in pools]
    lines = [
        "what the stack asks for, and what that costs by the hour:",
        *(f"  {_asked(each.pool)}: {_priced(each, table.currency)}" for each in costs),
        *_summed(costs, table.currency),
        *_sources(costs, today),
    ]
    if table.not_included and any(each.price is not None for each in costs):
        lines.append(f"  not included: {_listed(table.not_included)}")
    return "\n".join(lines)


def _cost(pool: NodePool, table: PriceTable) -> Cost:
    place = (pool.provider, pool.region, pool.size)
    exact = table.price(*place, spot=pool.spot)
    if exact is not None or not pool.spot:
        return Cost(pool, exact)
    # Azure takes the limit in dollars, whatever the bill is in.
    limit = pool.dollars if table.currency == "USD" else None
    return Cost(pool, table.price(*place), capped=True, limit=limit)


def _asked(pool: NodePool) -> str:
    """Return how many of which nodes a pool is."""
    gpus = f", each with {pool.gpus} GPU{'' if pool.gpus == 1 else 's'}" if pool.gpus else ""
    spot = ", spot" if pool.spot else ""
    count = _range(str(pool.min_nodes), str(pool.max_nodes))
    return f"{pool.name}: {count} x {pool.size} in {pool.region}{gpus}{spot}"


def _priced(cost: Cost, currency: str) -> str:
    if cost.node is None:
        kind = "spot nodes" if cost.pool.spot else "nodes"
        return f"no price for such {kind} of {cost.pool.provider}"
    if not cost.capped:
        return f"{currency} {_range(_money(cost.least), _money(cost.most))}"
    why = f"which never cost more than others: {_money(cost.node)}"
    if cost.node == cost.limit:
        why = f"which are given back above maxPrice: {_money(cost.node)}"
    return f"at most {currency} {_money(cost.most)} (no price for spot nodes, {why})"


def _summed(costs: Sequence[Cost], currency: str) -> Iterator[str]:
    unknown = [each.pool.name for each in costs if each.node is None]
    least = sum((each.least for each in costs), Decimal(0))
    most = sum((each.most for each in costs), Decimal(0))
    if len(unknown) < len(costs):
        total = f"{currency} {_range(_money(least), _money(most))} an hour"
        yield f"  together: {total}{f', without {_listed(unknown)}' if unknown else ''}"
    if least:
        yield (
            f"  a month ({HOURS_OF_MONTH} hours) with as few nodes as there may be: "
            f"{'at least ' if unknown else ''}{currency} {least * HOURS_OF_MONTH:,.0f}"
        )
    if unknown:
        yield (
            f"  no estimate of {_listed(unknown)}; a table with your own prices is set by "
            f"`pulumi config set slipway:prices FILE` ({WHERE})"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _sources(costs: Sequence[Cost], today: date) -> Iterator[str]:
    for source in dict.fromkeys(each.price.source for each in costs if each.price is not None):
        yield f"  prices of {source.date} by {source.publisher}: {source.url}{_age(source, today)}"


def _age(source: Source, today: date) -> str:
    days = (today - source.date).days
    if days <= _OLD:
        return ""
    return f" ({days * 12 // 365} months old: the prices of today may differ)"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _money(amount: Decimal) -> str:
    """Return an amount to a thousandth: the smallest nodes cost a few of them."""
    return f"{amount:,.3f}" if amount else "0"
