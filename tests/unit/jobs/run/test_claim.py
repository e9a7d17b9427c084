"""A claim that is gone, or whose cluster does not answer; tests/runs has the others."""

from typing import Any

import pytest

from core.manifests import KEPT_CLAIM, MADE_BY
from jobs.model import volumes
from jobs.run import claim
from jobs.run.claim import ClaimHandler
from tests.unit.fake_api import FakeApi, served
from tests.unit.row import Row

METADATA = {"name": "mine-results", "namespace": "slipway-jobs"}


def state(api: FakeApi) -> dict[str, Any]:
    return {"manifest": {"metadata": METADATA}, "kubeconfig": api.kubeconfig}


def test_without_its_cluster_it_is_not_lost_and_deleted_only_where_that_is_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served(FakeApi()) as gone:
        there = state(gone)
    assert ClaimHandler().diff(there, there, Row()) == []
    monkeypatch.setattr(claim, "_SECONDS", 0)
    deletion = "the deletion of PersistentVolumeClaim slipway-jobs/mine-results"
    with pytest.raises(TimeoutError, match=deletion):
        ClaimHandler().delete(there, Row())
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    ClaimHandler().delete(there, Row())


def test_a_deleted_claim_is_created_again_by_the_next_up() -> None:
    path = "/api/v1/namespaces/slipway-jobs/persistentvolumeclaims/mine-results"
    with served(FakeApi()) as api:
        there = state(api)
        (change,) = ClaimHandler().diff(there, there, Row())
        assert change.drift
        assert not change.replace
        api.says("GET", path, {"metadata": METADATA})
        assert ClaimHandler().diff(there, there, Row()) == []


def test_who_moves_to_another_cluster_is_told_where_the_files_stay() -> None:
    """Unless the cluster is the same one at another address."""
    manifest = volumes.claim(KEPT_CLAIM, "slipway-jobs", size="10Gi")
    manifest["metadata"]["annotations"] = {MADE_BY: "slipway/mine"}
    path, row = "/api/v1/namespaces/slipway-jobs/persistentvolumeclaims", Row()
    with served(FakeApi()) as api:
        now = {"manifest": manifest, "kubeconfig": api.kubeconfig}
        before = {**now, "kubeconfig": api.kubeconfig.replace(str(api.port), "1")}
        api.says("POST", path, manifest, status=201)
        ClaimHandler().update(before, now, row)
        api.says("GET", f"{path}/{KEPT_CLAIM}", manifest)
        ClaimHandler().update(before, now, row)
    (told,) = row.said
    assert "If http://127.0.0.1:1 exists, its files stay there" in told


def test_a_busy_api_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.wait.POLL_SECONDS", 0)
    monkeypatch.setattr(claim, "_SECONDS", 0)
    path = "/api/v1/namespaces/slipway-jobs/persistentvolumeclaims/mine-results"
    with served(FakeApi()) as api:
        api.says("DELETE", path, {"kind": "Status", "message": "too many requests"}, status=429)
        with pytest.raises(TimeoutError, match="too many requests"):
            ClaimHandler().delete(state(api), Row())


def test_a_claim_of_another_class_is_another_one_and_a_size_grows_in_place() -> None:
    def replaces(size: str = "10Gi", **changed: Any) -> bool:
        before = {"manifest": volumes.claim(KEPT_CLAIM, "slipway-jobs", size="10Gi")}
        now = {"manifest": volumes.claim(KEPT_CLAIM, "slipway-jobs", size=size, **changed)}
        return any(each.replace for each in ClaimHandler().diff(before, now, Row()))

    assert not replaces(size="20Gi")
    assert replaces(storage_class="nfs")
    assert replaces(mode="ReadWriteMany")
