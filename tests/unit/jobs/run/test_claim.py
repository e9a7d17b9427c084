"""A claim that is gone, or whose cluster does not answer; tests/runs has the others."""

from typing import Any

import pytest

from core.manifests import KEPT_CLAIM
from jobs.model import volumes
from jobs.run import claim
from jobs.run.claim import ClaimHandler
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row

METADATA = {"name": "mine-results", "namespace": "slipway-jobs"}


@pytest.fixture
def state() -> dict[str, Any]:
    """A claim of a cluster that has gone."""
    with served(FakeApi()) as gone:
        return {"manifest": {"metadata": METADATA}, "kubeconfig": gone.kubeconfig}


def test_without_its_cluster_it_is_not_lost_and_deleted_only_where_that_is_taken_for_gone(
    state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ClaimHandler().diff(state, state, Row()) == []
    monkeypatch.setattr(claim, "_SECONDS", 0)
    deletion = "the deletion of PersistentVolumeClaim slipway-jobs/mine-results"
    with pytest.raises(TimeoutError, match=deletion):
        ClaimHandler().delete(state, Row())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    ClaimHandler().delete(state, Row())


def test_a_deleted_claim_is_created_again_by_the_next_up() -> None:
    path = "/api/v1/namespaces/slipway-jobs/persistentvolumeclaims/mine-results"
    with served(FakeApi()) as api:
        there = {"manifest": {"metadata": METADATA}, "kubeconfig": api.kubeconfig}
        (change,) = ClaimHandler().diff(there, there, Row())
        assert change.drift
        assert not change.replace
        api.says("GET", path, {"metadata": METADATA})
        assert ClaimHandler().diff(there, there, Row()) == []


def test_a_claim_of_another_class_is_another_one_and_a_size_grows_in_place() -> None:
    def replaces(**changed: Any) -> bool:
        before, now = (
            {"manifest": volumes.claim(KEPT_CLAIM, "slipway-jobs", **each), "kubeconfig": "k"}
            for each in ({"size": "10Gi"}, {"size": "10Gi", **changed})
        )
        return any(each.replace for each in ClaimHandler().diff(before, now, Row()))

    assert not replaces(size="20Gi")
    assert replaces(storage_class="nfs")
    assert replaces(mode="ReadWriteMany")
