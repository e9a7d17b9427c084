"""A run's ledger in its cluster, from which a later `up` goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.model.job import TrainingJob
from jobs.model.submission import Submission
from jobs.run.ledger import Ledger
from tests.unit.fake_api import FakeApi, served
from tests.unit.jobs_declared import submitted

_NAMESPACE = "/api/v1/namespaces/slipway-jobs"
_LEDGER = f"{_NAMESPACE}/configmaps/mine-waiter"
_FACTS = {"facts": {"revision": "abc"}, "succeeded": "mine-1"}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with served(FakeApi()) as api:
        yield api


def ledger(api: FakeApi, begun: Submission | None = None, **values: str) -> Ledger:
    """Return the ledger of a run that began as submitted, which has these values besides."""
    if begun is not None:
        run = json.dumps({**begun.inputs(), **_FACTS})
        api.says("GET", _LEDGER, {"data": {"run": run, **values}})
    return Ledger.connect(api.kubeconfig, "slipway-jobs", "mine")


def mine(**fields: Any) -> Submission:
    return submitted(TrainingJob(name="mine", image="example.org/mine:1", **fields))


def test_an_up_goes_on_with_a_waiter_of_the_same_run_that_was_started(api: FakeApi) -> None:
    """An `up` that was stopped may have left a ledger whose waiter it never created."""
    assert not ledger(api).resume(mine().inputs())
    assert not ledger(api, mine()).resume(mine().inputs())
    assert not ledger(api, mine(), status="2 ranks").resume(mine(args=("2",)).inputs())
    assert ledger(api, mine(), status="2 ranks").resume(mine().inputs())
    assert ledger(api, mine(), result="{}").resume(mine().inputs())
    assert [method for method, *_ in api.asked if method != "GET"] == []


def test_the_waiter_of_a_run_in_progress_goes_by_the_limits_that_are_declared_now(
    api: FakeApi,
) -> None:
    """By a new pod; what the run began with stays."""
    api.says("GET", f"{_NAMESPACE}/pods", {"items": [{"metadata": {"name": "mine-waiter-x"}}]})
    now = mine(timeout=9000, stall=600)
    assert ledger(api, mine(timeout=60), status="2 ranks").resume(now.inputs())
    [delete, patch] = [each for each in api.asked if each[0] != "GET"]
    assert patch[:2] == ("PATCH", _LEDGER)
    assert json.loads(patch[2]["data"]["run"]) == {**now.inputs(), **_FACTS}
    assert delete[:2] == ("DELETE", f"{_NAMESPACE}/pods/mine-waiter-x")
