"""The tracking server is ready once all of its pods are, and waiting for it has an end."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.handler import Change
from infra.tracking import tracking_ready
from infra.tracking.tracking_ready import Gone, TrackingReadyHandler
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row

DEPLOYMENTS = "/apis/apps/v1/namespaces/slipway-jobs/deployments"


def deployment(ready: int) -> dict[str, Any]:
    return {
        "metadata": {"generation": 3},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "x"}}},
        "status": {"observedGeneration": 3, "updatedReplicas": 1, "readyReplicas": ready},
    }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster with a server and its database, both ready."""
    monkeypatch.setattr(tracking_ready, "LIMIT_SECONDS", 1)
    monkeypatch.setattr(tracking_ready, "_POLL_SECONDS", 0.05)
    ready = FakeApi()
    for name in ("mlflow", "mlflow-database"):
        ready.says("GET", f"{DEPLOYMENTS}/{name}", deployment(1))
    with served(ready):
        yield ready


def inputs(api: FakeApi) -> dict[str, Any]:
    return {
        "kubeconfig": api.kubeconfig,
        "namespace": "slipway-jobs",
        "deployments": ["mlflow-database", "mlflow"],
        "rollout": "x",
    }


def test_it_is_ready_when_all_of_it_is(api: FakeApi) -> None:
    row = Row()
    assert TrackingReadyHandler().create(inputs(api), row) == ("slipway-jobs/mlflow", {})
    assert row.said == []
    assert TrackingReadyHandler().diff(inputs(api), inputs(api), Row()) == []


@pytest.mark.parametrize("late", ["mlflow", "mlflow-database"])
def test_what_does_not_start_ends_the_wait(api: FakeApi, late: str) -> None:
    api.says("GET", f"{DEPLOYMENTS}/{late}", deployment(0))
    told = "^timed out after 1 s of waiting for the tracking server: 0 of 1 pods"
    with pytest.raises(TimeoutError, match=told):
        TrackingReadyHandler().create(inputs(api), Row())


def test_one_that_has_stopped_is_waited_for_again_and_one_that_was_deleted_is_not(
    api: FakeApi,
) -> None:
    api.says("GET", f"{DEPLOYMENTS}/mlflow", deployment(0))
    stopped = [Change("deployments", drift=True)]
    assert TrackingReadyHandler().diff(inputs(api), inputs(api), Row()) == stopped
    del api.answers["GET", f"{DEPLOYMENTS}/mlflow"]
    assert TrackingReadyHandler().diff(inputs(api), inputs(api), Row()) == stopped
    told = "slipway-jobs/mlflow was deleted outside Pulumi: run `pulumi refresh`"
    with pytest.raises(Gone, match=told):
        TrackingReadyHandler().create(inputs(api), Row())


def test_deleting_it_deletes_the_pods_that_hold_the_claims(api: FakeApi) -> None:
    """Pulumi deletes Deployments with their cluster, but the claims before it."""
    api.says("DELETE", f"{DEPLOYMENTS}/mlflow-database", {})  # the other one is gone already
    TrackingReadyHandler().delete(inputs(api), Row())
    deleted = [path for method, path, _ in api.asked if method == "DELETE"]
    assert deleted == [f"{DEPLOYMENTS}/mlflow-database", f"{DEPLOYMENTS}/mlflow"]
