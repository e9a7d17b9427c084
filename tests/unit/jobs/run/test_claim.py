"""The claim of a job's volume, of a cluster that does not answer; tests/runs has the others."""

from typing import Any

import pytest

from jobs.run import claim
from jobs.run.claim import ClaimHandler
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row


@pytest.fixture
def state() -> dict[str, Any]:
    """A claim of a cluster that has gone."""
    with served(FakeApi()) as gone:
        metadata = {"name": "mine-results", "namespace": "slipway-jobs"}
        return {"manifest": {"metadata": metadata}, "kubeconfig": gone.kubeconfig}


def test_it_can_be_deleted_where_its_cluster_is_taken_for_gone(
    state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_SECONDS", 0)
    with pytest.raises(TimeoutError, match="the end of here"):
        ClaimHandler().delete("here", state, Row())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    ClaimHandler().delete("here", state, Row())
