"""What a stack's nodes and jobs cost is told in words, with nothing guessed."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pulumi
import pytest

from clusters.nodes import NodePool
from core.context import SUMMARY_VARIABLE
from infra.cost import estimates
from infra.cost.prices import PriceTable, Source, Tariff
from jobs.model.job import TrainingJob
from jobs.plan import TrainingCost

MARKET = Source(publisher="a publisher", url="https://example.org/prices", date=date(2026, 1, 1))
SYSTEM = NodePool("system", "azure", "westeurope", "Standard_D4s_v5", 1, 3)
GPU = NodePool("gpu", "azure", "westeurope", "Standard_NC4as_T4_v3", 0, 4, gpus=1)
UNKNOWN = replace(GPU, name="big", size="Standard_Big")


def table(
    hourly: dict[str, str] | None = None, spot: dict[str, str] | None = None, currency: str = "USD"
) -> PriceTable:
    amounts = (
        {"Standard_D4s_v5": "0.2", "Standard_NC4as_T4_v3": "0.5"} if hourly is None else hourly
    )
    tariff = Tariff(
        source="market",
        provider="azure",
        region="westeurope",
        hourly={size: Decimal(amount) for size, amount in amounts.items()},
        spot={size: Decimal(amount) for size, amount in (spot or {}).items()},
    )
    return PriceTable(currency=currency, sources={"market": MARKET}, prices=(tariff,))


def told(*pools: NodePool, prices: PriceTable | None = None) -> list[str]:
    """Return the lines after the first, with no blanks before them."""
    lines = estimates.estimate(pools, table() if prices is None else prices).splitlines()
    assert lines[0] == "what the stack requests, and what it costs per hour:"
    assert all(line.startswith("  ") for line in lines[1:])
    return [line.strip() for line in lines[1:]]


def test_each_pool_is_listed_with_its_nodes_gpus_and_cost() -> None:
    assert told(SYSTEM, GPU)[:2] == [
        "system: 1 to 3 x Standard_D4s_v5 in westeurope: USD 0.200 to 0.600",
        "gpu: 0 to 4 x Standard_NC4as_T4_v3 in westeurope, each with 1 GPU: USD 0 to 2.000",
    ]


def test_a_pool_that_does_not_scale_has_one_number() -> None:
    fixed = replace(SYSTEM, min_nodes=2, max_nodes=2)
    assert told(fixed)[:2] == [
        "system: 2 x Standard_D4s_v5 in westeurope: USD 0.400",
        "total: USD 0.400 an hour",
    ]


def test_several_gpus_per_node_are_shown() -> None:
    assert ", each with 4 GPUs:" in told(replace(GPU, gpus=4))[0]


def test_a_slow_network_is_mentioned_beside_the_price() -> None:
    slow = replace(GPU, network="TCP only")
    assert "each with 1 GPU, TCP only: USD 0 to 2.000" in told(slow)[0]


def test_the_range_of_the_sum_goes_from_the_fewest_nodes_to_the_most() -> None:
    assert "total: USD 0.200 to 2.600 an hour" in told(SYSTEM, GPU)


def test_permanent_nodes_have_a_monthly_cost() -> None:
    line = "per month (730 hours), at the minimum node count: USD 146"
    assert line in told(SYSTEM, GPU)
    assert not any("month" in line for line in told(GPU))


def test_every_price_has_its_publisher_date_and_address_once() -> None:
    line = "prices as of 2026-01-01, from a publisher: https://example.org/prices"
    assert told(SYSTEM, GPU).count(line) == 1


def test_old_prices_and_sizes_are_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.azure.facts.READ", date(2026, 2, 1))
    assert estimates.outdated([GPU], table(), date(2026, 4, 1)) is None
    text = str(estimates.outdated([GPU, SYSTEM], table(), date(2026, 4, 2)))
    assert text.startswith("prices, sizes and regions date from 2026-01-01, more than 90 days")
    assert estimates.outdated([UNKNOWN], table(), date(2026, 5, 2)) is None
    assert "2026-02-01" in str(estimates.outdated([UNKNOWN], table(), date(2026, 5, 3)))


def test_a_pool_without_a_price_is_named_and_left_out_of_the_sum() -> None:
    lines = told(SYSTEM, UNKNOWN)
    assert lines[1] == (
        "big: 0 to 4 x Standard_Big in westeurope, each with 1 GPU: "
        "no price for these nodes on azure"
    )
    assert "total: USD 0.200 to 0.600 an hour, excluding big" in lines
    assert "per month (730 hours), at the minimum node count: at least USD 146" in lines
    assert any("no estimate for big" in line and "slipway:prices" in line for line in lines)


def test_what_all_nodes_cost_is_known_only_with_the_price_of_each() -> None:
    assert estimates.most((SYSTEM, SYSTEM), table()) == Decimal("1.2")
    assert estimates.most((SYSTEM, UNKNOWN), table()) is None


def test_without_any_price_there_is_no_sum_and_no_source() -> None:
    lines = told(UNKNOWN, replace(UNKNOWN, name="bigger"))
    assert not any("USD" in line or "example.org" in line for line in lines)
    assert any("no estimate for big, bigger" in line for line in lines)


@pytest.mark.parametrize(
    "elsewhere",
    [replace(GPU, region="eastus"), replace(GPU, provider="azure-local")],
    ids=["another region", "another provider"],
)
def test_a_price_holds_for_its_provider_and_region_alone(elsewhere: NodePool) -> None:
    assert "no price" in told(elsewhere)[0]


def test_spot_nodes_cost_what_the_table_says_of_spot_nodes() -> None:
    prices = table(spot={"Standard_NC4as_T4_v3": "0.1"})
    assert told(replace(GPU, spot=True), prices=prices)[0] == (
        "gpu: 0 to 4 x Standard_NC4as_T4_v3 in westeurope, each with 1 GPU, spot: USD 0 to 0.400"
    )


def test_spot_nodes_without_a_price_cost_at_most_what_others_do_and_no_least_is_guessed() -> None:
    lines = told(SYSTEM, replace(GPU, spot=True, min_nodes=1))
    assert lines[1] == (
        "gpu: 1 to 4 x Standard_NC4as_T4_v3 in westeurope, each with 1 GPU, spot: at most USD "
        "2.000 (no price for spot nodes, which never cost more than regular nodes: 0.500)"
    )
    assert "total: USD 0.200 to 2.600 an hour" in lines


@pytest.mark.parametrize(
    ("size", "dollars", "most", "why"),
    [
        ("Standard_NC4as_T4_v3", "0.3", "1.200", "are evicted above maxPrice: 0.300"),
        ("Standard_NC4as_T4_v3", "0.9", "2.000", "never cost more than regular nodes: 0.500"),
        ("Standard_Big", "0.3", "1.200", "are evicted above maxPrice: 0.300"),
    ],
)
def test_spot_nodes_cost_at_most_their_price(size: str, dollars: str, most: str, why: str) -> None:
    lines = told(replace(GPU, size=size, spot=True, dollars=Decimal(dollars)))
    assert f"spot: at most USD {most} (no price for spot nodes, which {why})" in lines[0]
    assert lines[1] == f"total: USD 0 to {most} an hour"


def test_a_limit_in_dollars_says_nothing_of_another_currency() -> None:
    lines = told(replace(GPU, spot=True, dollars=Decimal("0.3")), prices=table(currency="EUR"))
    assert "spot: at most EUR 2.000" in lines[0]


def test_a_price_of_spot_nodes_is_none_of_others() -> None:
    prices = table(hourly={}, spot={"Standard_NC4as_T4_v3": "0.1"})
    assert "no price for these nodes" in told(GPU, prices=prices)[0]


def test_amounts_are_in_the_tables_currency_and_small_ones_are_seen() -> None:
    prices = table(hourly={"Standard_NC4as_T4_v3": "0.0052"}, currency="EUR")
    assert "EUR 0 to 0.021" in told(GPU, prices=prices)[0]


def test_what_is_not_included_is_named_beside_an_estimate() -> None:
    prices = replace(table(), not_included=("disks", "traffic"))
    assert told(GPU, prices=prices)[-1] == "not included: disks, traffic"
    assert not any("not included" in line for line in told(UNKNOWN, prices=prices))


@pytest.mark.parametrize("dry_run", [True, False])
def test_preview_and_update_show_costs(dry_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.info", said.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: dry_run)
    estimates.announce([GPU], table())
    assert len(said) == 1


def test_a_preview_gets_costs_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    monkeypatch.setattr("pulumi.log.info", said.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    estimates.announce([GPU], table())
    monkeypatch.setenv(SUMMARY_VARIABLE, str(tmp_path / "last"))
    estimates.announce([GPU], table())
    assert (tmp_path / "last").read_text() == f"{said[0]}\n{said[1]}\n"


def test_without_paid_pools_no_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("nothing should be said or read")

    monkeypatch.setattr("pulumi.log.info", unwanted)
    monkeypatch.setattr("infra.cost.prices.default", unwanted)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    estimates.announce([], None)
    assert estimates.of_jobs([job()], [], None) == {}


def test_the_default_price_table_is_the_repositorys(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for kind in ("info", "warn"):
        monkeypatch.setattr(f"pulumi.log.{kind}", said.append)
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    estimates.announce([SYSTEM], None)
    assert "USD 0.230 to 0.690" in said[0]
    assert "not included: " in said[0]


TRAINED = replace(GPU, max_nodes=8, gpus=2)
EUROS = table({"Standard_NC4as_T4_v3": "2"}, currency="EUR")


def job(**fields: Any) -> TrainingJob:
    return TrainingJob(**{"name": "mine", "module": "mnist", "backend": "nccl", **fields})


def test_a_job_takes_the_nodes_that_its_gpus_need_and_at_most_one_for_each_replica() -> None:
    known = estimates.of_jobs([job(workers=3)], [TRAINED], EUROS)
    assert known == {"mine": TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")}


def test_a_job_that_may_be_on_two_pools_costs_from_the_cheaper_to_the_dearer() -> None:
    prices = table({"Standard_NC4as_T4_v3": "2"}, {"Standard_NC4as_T4_v3": "0.5"}, currency="EUR")
    spot = replace(TRAINED, spot=True)
    (cost_,) = estimates.of_jobs([job(workers=3)], [SYSTEM, spot, TRAINED], prices).values()
    assert cost_.in_words(3600) == "EUR 1.00 to 10.00 (4 nodes at 0.5 to 2 an hour)"
    assert cost_.most_in_words(2700) == "at most EUR 8.00 (4 nodes at 0.5 to 2 an hour)"
    # Not more than one of them is known to cost.
    elsewhere = replace(TRAINED, region="nowhere")
    assert estimates.of_jobs([job()], [spot, elsewhere], prices) == {}


def test_jobs_without_gpus_or_a_price_have_no_estimate() -> None:
    assert estimates.of_jobs([job(backend="gloo")], [TRAINED], EUROS) == {}
    assert estimates.of_jobs([job()], [], None) == {}
    elsewhere = replace(TRAINED, region="nowhere")
    assert estimates.of_jobs([job()], [elsewhere], EUROS) == {}


def test_a_training_costs_its_time_at_least_and_at_most_that_of_nodes_that_come_and_go() -> None:
    training = TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")
    assert training.most(3600) == 10.0
    # The error that docs/costs.md states: a quarter of an hour longer is still within it.
    assert training.most(3600) == training.nodes * (3600 + 900) / 3600 * training.hourly
    assert training.in_words(3600) == "EUR 4.00 to 10.00 (4 nodes at 2 an hour)"
    assert training.most_in_words(2700) == "at most EUR 8.00 (4 nodes at 2 an hour)"


@pytest.mark.parametrize(("limit", "refused"), [(9.99, True), (10.0, False), (None, False)])
def test_a_job_above_its_cost_limit_is_refused(limit: float | None, *, refused: bool) -> None:
    problems = list(
        estimates.too_dear([job(workers=3, max_cost=limit, timeout=3600)], [TRAINED], EUROS)
    )
    assert [each.key for each in problems] == ["slipway:jobs.mine.maxCost"] * refused


def test_all_attempts_count_until_their_timeouts() -> None:
    dear = job(workers=0, max_cost=5.0, timeout=3600, retries=2)
    (problem,) = estimates.too_dear([dear], [TRAINED], EUROS)
    assert problem.text == (
        "5 is less than the job could cost if every attempt ran until its timeout, at most EUR "
        "6.50 (1 node at 2 an hour); lower timeout (1 h per attempt), retries or workers, or raise "
        "maxCost"
    )
