"""Where a cluster has gone its address may be another's: a proxy that answers is no API server."""

from collections.abc import Iterator

import pytest

from jobs.api.client import JobApi, Unreachable
from jobs.run import submit
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row


@pytest.fixture
def kubeconfig() -> Iterator[str]:
    """It leads to a server with which no TLS connection comes about."""
    with served(FakeApi()) as other:
        yield other.kubeconfig.replace("http://", "https://")


def test_a_job_there_is_a_job_that_cannot_be_reached(kubeconfig: str) -> None:
    with pytest.raises(Unreachable, match="a server other than the API server responded"):
        JobApi.connect(kubeconfig, "slipway-jobs", "mine").get()


def test_runs_there_cannot_be_asked_for(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="set PULUMI_K8S_DELETE_UNREACHABLE=true"):
        submit.stop_all(kubeconfig, "slipway-jobs", Row())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    submit.stop_all(kubeconfig, "slipway-jobs", Row())
