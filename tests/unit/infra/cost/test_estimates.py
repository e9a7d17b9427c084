"""What a stack's nodes and jobs cost is told in words, with nothing guessed."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from clusters.nodes import NodePool
from infra.cost import estimates
from infra.cost.prices import PriceTable, Source, Tariff
from jobs.model.job import TrainingJob
from jobs.plan import TrainingCost

MARKET = Source(publisher="a publisher", url="https://example.org/prices", date=date(2026, 1, 1))
SYSTEM = NodePool("system", "azure", "westeurope", "Standard_D4s_v5", 1, 3)
GPU = NodePool("gpu", "azure", "westeurope", "Standard_NC4as_T4_v3", 0, 4, gpus=1)
UNKNOWN = replace(GPU, name="big", size="Standard_Big")


USUAL = {SYSTEM.size: "0.2", GPU.size: "0.5"}


def table(
    hourly: Mapping[str, str] = USUAL, spot: Mapping[str, str] = {}, currency: str = "USD"
) -> PriceTable:
    amounts = {
        kind: {size: Decimal(amount) for size, amount in each.items()}
        for kind, each in (("hourly", hourly), ("spot", spot))
    }
    tariff = Tariff(source="market", provider="azure", region="westeurope", **amounts)
    return PriceTable(currency=currency, sources={"market": MARKET}, prices=(tariff,))


def told(*pools: NodePool, prices: PriceTable | None = None) -> list[str]:
    """Return the lines after the first, with no blanks before them."""
    lines = estimates.estimate(pools, table() if prices is None else prices).splitlines()
    assert lines[0] == "what the stack requests, and what it costs per hour:"
    assert all(line.startswith("  ") for line in lines[1:])
    return [line.strip() for line in lines[1:]]


SPOT = replace(GPU, spot=True)
SPOT_PRICES = table(spot={GPU.size: "0.1"})
OF_GPU = "x Standard_NC4as_T4_v3 in westeurope, each with 1 GPU"
OF_BIG = OF_GPU.replace("NC4as_T4_v3", "Big")
EVICTED = "no price for spot nodes, which are evicted above maxPrice: 0.300"
NO_SPOT = "no price for spot nodes, which never cost more than regular nodes: 0.500"
DEAR, CHEAP = (replace(SPOT, dollars=Decimal(each)) for each in ("0.9", "0.3"))
CHEAP_AND_BIG = replace(CHEAP, size=UNKNOWN.size)


@pytest.mark.parametrize(
    ("pool", "prices", "line"),
    [
        (GPU, table(), f"{OF_GPU}: USD 0 to 2.000"),
        (GPU, table({GPU.size: "0.0052"}, currency="EUR"), f"{OF_GPU}: EUR 0 to 0.021"),
        (replace(GPU, network="TCP only"), table(), f"{OF_GPU}, TCP only: USD 0 to 2.000"),
        (SPOT, SPOT_PRICES, f"{OF_GPU}, spot: USD 0 to 0.400"),
        # Without a price spot nodes cost at most what others do, or that at which they are evicted,
        (SPOT, table(), f"{OF_GPU}, spot: at most USD 2.000 ({NO_SPOT})"),
        (DEAR, table(), f"{OF_GPU}, spot: at most USD 2.000 ({NO_SPOT})"),
        (CHEAP, table(), f"{OF_GPU}, spot: at most USD 1.200 ({EVICTED})"),
        # also where that of others is unknown; it says nothing of another currency.
        (CHEAP_AND_BIG, table(), f"{OF_BIG}, spot: at most USD 1.200 ({EVICTED})"),
        (CHEAP, table(currency="EUR"), f"{OF_GPU}, spot: at most EUR 2.000 ({NO_SPOT})"),
    ],
)
def test_a_pool_is_listed_with_its_nodes_gpus_and_cost(
    pool: NodePool, prices: PriceTable, line: str
) -> None:
    first, total, *_ = told(pool, prices=prices)
    assert first == f"gpu: 0 to 4 {line}"
    assert total.startswith(f"total: {prices.currency} 0 to ")


def test_an_estimate_has_the_sum_and_the_sources_of_its_prices() -> None:
    prices = replace(table(), not_included=("disks", "traffic"))
    assert told(SYSTEM, GPU, prices=prices) == [
        "system: 1 to 3 x Standard_D4s_v5 in westeurope: USD 0.200 to 0.600",
        f"gpu: 0 to 4 {OF_GPU}: USD 0 to 2.000",
        # From the fewest nodes to the most.
        "total: USD 0.200 to 2.600 an hour",
        "per month (730 hours), at the minimum node count: USD 146",
        "prices as of 2026-01-01, from a publisher: https://example.org/prices",
        "not included: disks, traffic",
    ]
    assert estimates.most((SYSTEM, GPU), prices) == Decimal("2.6")
    # A pool that does not scale has one number, and of what is at most so much no least is guessed.
    fixed = replace(SYSTEM, min_nodes=2, max_nodes=2)
    system, _, total, *_ = told(fixed, replace(SPOT, min_nodes=1))
    assert system == "system: 2 x Standard_D4s_v5 in westeurope: USD 0.400"
    assert total == "total: USD 0.400 to 2.400 an hour"
    assert told(SYSTEM, UNKNOWN)[1:4] == [
        f"big: 0 to 4 {OF_BIG}: no price for these nodes on azure",
        "total: USD 0.200 to 0.600 an hour, excluding big",
        "per month (730 hours), at the minimum node count: at least USD 146",
    ]


@pytest.mark.parametrize(
    ("pool", "prices"),
    [
        (replace(GPU, region="eastus"), table()),
        (replace(GPU, provider="azure-local"), table()),
        (GPU, table(hourly={}, spot={GPU.size: "0.1"})),
    ],
    ids=["another region", "another provider", "that of spot nodes"],
)
def test_a_price_holds_for_its_kind_of_nodes_alone(pool: NodePool, prices: PriceTable) -> None:
    assert "no price" in told(pool, prices=prices)[0]
    assert estimates.most((SYSTEM, pool), prices) is None


def test_without_any_price_there_is_no_sum_and_nothing_else() -> None:
    prices = replace(table(), not_included=("disks",))
    text = "\n".join(told(UNKNOWN, replace(UNKNOWN, name="bigger"), prices=prices))
    assert [word for word in ("USD", "example.org", "not included") if word in text] == []
    assert re.search("no estimate for big, bigger.*slipway:prices", text)
    assert not any("month" in line for line in told(GPU)), "no node is permanent"


def test_old_prices_and_sizes_are_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.azure.facts.READ", date(2026, 2, 1))
    assert estimates.outdated([GPU], table(), date(2026, 4, 1)) is None
    text = str(estimates.outdated([GPU, SYSTEM], table(), date(2026, 4, 2)))
    assert text.startswith("prices, sizes and regions date from 2026-01-01, more than 90 days")
    assert estimates.outdated([UNKNOWN], table(), date(2026, 5, 2)) is None
    assert "2026-02-01" in str(estimates.outdated([UNKNOWN], table(), date(2026, 5, 3)))


TRAINED = replace(GPU, max_nodes=8, gpus=2)
EUROS = table({GPU.size: "2"}, currency="EUR")


def job(**fields: Any) -> TrainingJob:
    return TrainingJob(**{"name": "mine", "module": "mnist", "backend": "nccl", **fields})


def test_a_job_is_estimated_by_the_nodes_that_its_gpus_need() -> None:
    known = estimates.of_jobs([job(workers=3)], [TRAINED], EUROS)
    assert known == {"mine": TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")}
    # Not without GPUs or a price.
    assert estimates.of_jobs([job(backend="gloo")], [TRAINED], EUROS) == {}
    assert estimates.of_jobs([job()], [], None) == {}
    assert estimates.of_jobs([job()], [replace(TRAINED, region="nowhere")], EUROS) == {}


def test_a_job_that_may_be_on_two_pools_costs_from_the_cheaper_to_the_dearer() -> None:
    prices = table({GPU.size: "2"}, {GPU.size: "0.5"}, currency="EUR")
    spot, elsewhere = replace(TRAINED, spot=True), replace(TRAINED, region="nowhere")
    (cost,) = estimates.of_jobs([job(workers=3)], [SYSTEM, spot, TRAINED], prices).values()
    assert cost.in_words(3600) == "EUR 1.00 to 10.00 (4 nodes at 0.5 to 2 an hour)"
    assert cost.most_in_words(2700) == "at most EUR 8.00 (4 nodes at 0.5 to 2 an hour)"
    assert estimates.of_jobs([job()], [spot, elsewhere], prices) == {}, "one price is not known"


def test_a_training_costs_its_time_at_least_and_at_most_that_of_nodes_that_come_and_go() -> None:
    training = TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")
    # The error that docs/costs.md states: a quarter of an hour longer is still within it.
    assert training.most(3600) == training.nodes * (3600 + 900) / 3600 * training.hourly
    assert training.in_words(3600) == "EUR 4.00 to 10.00 (4 nodes at 2 an hour)"
    assert training.most_in_words(2700) == "at most EUR 8.00 (4 nodes at 2 an hour)"


@pytest.mark.parametrize(("limit", "refused"), [(9.99, True), (10.0, False), (None, False)])
def test_a_job_above_its_cost_limit_is_refused(limit: float | None, *, refused: bool) -> None:
    dear = job(workers=3, max_cost=limit, timeout=3600)
    assert bool([*estimates.too_dear([dear], [TRAINED], EUROS)]) == refused


def test_a_cost_limit_without_a_price_is_refused_and_one_without_gpus_is_kept() -> None:
    (problem,) = estimates.too_dear([job(max_cost=5.0)], [], None)
    assert "no price for the GPU nodes of an existing cluster; remove it" in str(problem)
    (problem,) = estimates.too_dear([job(max_cost=5.0)], [TRAINED, UNKNOWN], EUROS)
    assert "5 can't be checked, because there is no price for Standard_Big in west" in str(problem)
    assert [*estimates.too_dear([job(backend="gloo", max_cost=5.0)], [UNKNOWN], EUROS)] == []


def test_all_attempts_count_until_their_timeouts() -> None:
    dear = job(workers=0, max_cost=5.0, timeout=3600, retries=2)
    (problem,) = estimates.too_dear([dear], [TRAINED], EUROS)
    assert str(problem) == (
        "slipway:jobs.mine.maxCost: 5 is less than the job could cost if every attempt ran until "
        "its timeout, at most EUR 6.50 (1 node at 2 an hour); lower timeout (1 h per attempt), "
        "retries or workers, or raise maxCost"
    )
