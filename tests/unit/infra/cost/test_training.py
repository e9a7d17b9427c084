"""What a job's nodes cost, and a job that may cost more than it should."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from clusters.pools import NodePool
from infra.cost import training
from infra.cost.prices import PriceTable, Source, Tariff
from jobs.cost import TrainingCost
from jobs.spec import TrainingJob

SIZE = "Standard_NC4as_T4_v3"
POOL = NodePool("gpu", "azure", "westeurope", SIZE, 0, 8, gpus=2)
TABLE = PriceTable(
    currency="EUR",
    sources={"mine": Source(publisher="me", url="https://slipway.test", date=date(2026, 1, 1))},
    prices=(
        Tariff(source="mine", provider="azure", region="westeurope", hourly={SIZE: Decimal(2)}),
    ),
)


def job(**fields: Any) -> TrainingJob:
    return TrainingJob(**{"name": "mine", "module": "mnist", "backend": "nccl", **fields})


def test_a_job_takes_the_nodes_that_its_gpus_need_and_at_most_one_for_each_replica() -> None:
    known = training.costs([job(workers=3)], [POOL], TABLE)
    assert known == {"mine": TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")}


def test_without_gpus_or_a_price_nothing_is_said() -> None:
    assert training.costs([job(backend="gloo")], [POOL], TABLE) == {}
    assert training.costs([job()], [], None) == {}
    elsewhere = NodePool("gpu", "azure", "nowhere", SIZE, 0, 8, gpus=2)
    assert training.costs([job()], [elsewhere], TABLE) == {}


def test_a_training_costs_its_time_at_least_and_at_most_that_of_nodes_that_come_and_go() -> None:
    cost = TrainingCost(fewest=2, nodes=4, hourly=2.0, currency="EUR")
    assert cost.least(3600) == 4.0
    assert cost.most(3600) == 10.0
    assert cost.in_words(3600) == "EUR 4.00 to 10.00 (4 nodes at 2 an hour)"
    assert cost.most_in_words(2700) == "at most EUR 8.00 (4 nodes at 2 an hour)"


@pytest.mark.parametrize(("limit", "refused"), [(9.99, True), (10.0, False), (None, False)])
def test_a_job_that_may_cost_more_than_its_limit_is_refused(
    limit: float | None, *, refused: bool
) -> None:
    problems = list(training.too_dear([job(workers=3, max_cost=limit)], [POOL], TABLE))
    assert [each.key for each in problems] == ["slipway:jobs.mine.maxCost"] * refused


def test_all_attempts_count_until_their_timeouts() -> None:
    dear = job(workers=0, max_cost=5.0, timeout=3600, retries=2)
    (problem,) = training.too_dear([dear], [POOL], TABLE)
    assert problem.text == (
        "5 is less than what it may cost until the timeout of its last attempt, at most EUR 6.50 "
        "(1 node at 2 an hour); lower timeout, retries or workers, or raise maxCost"
    )
