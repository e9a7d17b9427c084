"""An estimate of the cost of a stack's nodes, before any is created. Pure but for `announce`.

Nothing is guessed: a pool without a price in the table is named, and left out of the sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pulumi

from clusters.pools import NodePool
from core.context import show_in_summary
from infra.cost.prices import Price, PriceTable, default

_HOURS_OF_MONTH = 730
_OLD = 365  # days
_INFINIBAND = re.compile("Standard_ND")
"""https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-family"""


@dataclass(frozen=True)
class _Cost:
    """What a pool costs by the hour.

    Args:
        pool: Which.
        price: Of one ordinary node, or of one spot node; None where the table has none.
        node: What one node costs at most; None where nothing is known of it.
        capped: Why it may cost less; empty where it costs just that.
    """

    pool: NodePool
    price: Price | None
    node: Decimal | None
    capped: str = ""

    @property
    def least(self) -> Decimal:
        """With the minimum number of nodes; 0 where the price is unknown."""
        return Decimal(0) if self.node is None or self.capped else self.pool.min_nodes * self.node

    @property
    def most(self) -> Decimal:
        """With the maximum number of nodes; 0 where the price is unknown."""
        return Decimal(0) if self.node is None else self.pool.max_nodes * self.node


def announce(pools: Sequence[NodePool], own: PriceTable | None) -> None:
    """Log, in previews and updates, what the stack requests and costs; nothing where that is none.

    Args:
        pools: What is paid for.
        own: The stack's own price table; None for the one that comes with Slipway.
    """
    if pools:
        table = default() if own is None else own
        today = datetime.now().astimezone().date()
        show_in_summary(estimate(pools, table, today), pulumi.log.info)


def estimate(pools: Sequence[NodePool], table: PriceTable, today: date) -> str:
    """Return what the pools are, what they cost by the hour, and where the prices are from.

    Args:
        pools: Of one stack, one at least.
        table: The prices.
        today: For the prices' age.
    """
    costs = [_cost(pool, table) for pool in pools]
    lines = ["what the stack requests, and what that costs by the hour:"]
    lines += [f"  {_nodes(each.pool)}: {_amount(each, table.currency)}" for each in costs]
    lines += _total(costs, table.currency)
    sources = dict.fromkeys(each.price.source for each in costs if each.price is not None)
    for source in sources:
        days = (today - source.date).days
        age = f" ({days * 12 // 365} months old: the prices of today may differ)"
        line = f"  prices of {source.date} by {source.publisher}: {source.url}"
        lines.append(f"{line}{age if days > _OLD else ''}")
    if table.not_included and sources:
        lines.append(f"  not included: {', '.join(table.not_included)}")
    return "\n".join(lines)


def node_price(pool: NodePool, table: PriceTable) -> Decimal | None:
    """Return what one node of a pool costs by the hour, at most; None without a price."""
    return _cost(pool, table).node


def _cost(pool: NodePool, table: PriceTable) -> _Cost:
    node = (pool.provider, pool.region, pool.size)
    price = table.price(*node, spot=pool.spot)
    if price is not None or not pool.spot:
        return _Cost(pool, price, None if price is None else price.amount)
    # https://learn.microsoft.com/azure/virtual-machines/linux/spot-template
    price, limits = table.price(*node), []
    if price is not None:
        limits.append((price.amount, "which never cost more than others"))
    # Azure takes the limit in dollars, whatever the bill is in.
    if pool.dollars is not None and table.currency == "USD":
        limits.append((pool.dollars, "which are given back above maxPrice"))
    amount, why = min(limits, default=(None, ""))
    return _Cost(pool, price, amount, why)


def _nodes(pool: NodePool) -> str:
    """Return how many of which nodes a pool is."""
    gpus = f", each with {pool.gpus} GPU{'' if pool.gpus == 1 else 's'}" if pool.gpus else ""
    spot = ", spot" if pool.spot else ""
    if _INFINIBAND.match(pool.size) and pool.max_nodes > 1:
        spot += ", whose InfiniBand is not set up: nodes talk TCP to each other"
    count = _range(str(pool.min_nodes), str(pool.max_nodes))
    return f"{pool.name}: {count} x {pool.size} in {pool.region}{gpus}{spot}"


def _amount(cost: _Cost, currency: str) -> str:
    if cost.node is None:
        kind = "spot nodes" if cost.pool.spot else "nodes"
        return f"no price for such {kind} of {cost.pool.provider}"
    if not cost.capped:
        return f"{currency} {_range(_money(cost.least), _money(cost.most))}"
    why = f"no price for spot nodes, {cost.capped}: {_money(cost.node)}"
    return f"at most {currency} {_money(cost.most)} ({why})"


def _total(costs: Sequence[_Cost], currency: str) -> Iterator[str]:
    unknown = ", ".join(each.pool.name for each in costs if each.node is None)
    least = sum((each.least for each in costs), Decimal(0))
    most = sum((each.most for each in costs), Decimal(0))
    if any(each.node is not None for each in costs):
        without = f", without {unknown}" if unknown else ""
        yield f"  total: {currency} {_range(_money(least), _money(most))} an hour{without}"
    if least:
        yield (
            f"  a month ({_HOURS_OF_MONTH} hours) with as few nodes as there may be: "
            f"{'at least ' if unknown else ''}{currency} {least * _HOURS_OF_MONTH:,.0f}"
        )
    if unknown:
        yield (
            f"  no estimate of {unknown}; a table with your own prices is set by "
            f"`pulumi config set slipway:prices FILE` (docs/costs.md)"
        )


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _money(amount: Decimal) -> str:
    """Return an amount to a thousandth: the smallest nodes cost a few of them."""
    return f"{amount:,.3f}" if amount else "0"
