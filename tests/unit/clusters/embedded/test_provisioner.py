"""Which claims get a volume, and what it is."""

from pathlib import Path
from typing import Any

import pytest

from clusters.embedded import api, provisioner


def _claim(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": "data", "uid": "u-1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
            "storageClassName": "slipway-directory",
            **spec,
        },
    }


def test_a_volume_is_what_the_claim_asked_for_and_is_bound_to_it_alone() -> None:
    made = provisioner.volume(_claim(), "Delete", Path("/volumes/pvc-u-1"), "node")
    assert made["metadata"]["name"] == "pvc-u-1"
    assert made["spec"]["capacity"] == {"storage": "5Gi"}
    assert made["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert made["spec"]["claimRef"]["uid"] == "u-1"


def test_a_volume_is_of_the_kind_that_the_kubelet_gives_to_a_pods_group() -> None:
    made = provisioner.volume(_claim(), "Delete", Path("/volumes/pvc-u-1"), "node")
    assert made["spec"]["local"] == {"path": "/volumes/pvc-u-1"}
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node"]


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"volumeMode": "Block"}, "volumeMode"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, "dataSource"),
        ({"dataSourceRef": {"kind": "VolumeSnapshot", "name": "s"}}, "dataSource"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "selector"),
    ],
)
def test_a_claim_that_cannot_be_served_is_told_which_field_to_leave_out(
    spec: dict[str, Any], named: str
) -> None:
    why = provisioner.refusal(_claim(**spec))
    assert why is not None
    assert why.startswith(named)


def test_an_ordinary_claim_is_not_refused() -> None:
    assert provisioner.refusal(_claim(volumeMode="Filesystem")) is None


def test_a_claim_waits_until_it_has_a_volume_or_is_being_deleted() -> None:
    assert provisioner.is_waiting(_claim())
    assert not provisioner.is_waiting(_claim(volumeName="pvc-u-1"))
    deleted = _claim()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not provisioner.is_waiting(deleted)


def _volume(phase: str, reclaim: str = "Delete", by: str = api.PROVISIONER) -> dict[str, Any]:
    made = provisioner.volume(_claim(), reclaim, Path("/volumes/pvc-u-1"), "node")
    made["metadata"]["annotations"] = {provisioner.PROVISIONED_BY: by}
    return {**made, "status": {"phase": phase}}


def test_a_volumes_data_goes_only_when_its_claim_has_gone_and_nobody_keeps_it() -> None:
    assert provisioner.is_done(_volume("Released"))
    assert provisioner.is_done(_volume("Failed"))
    assert not provisioner.is_done(_volume("Bound"))
    assert not provisioner.is_done(_volume("Pending"))
    assert not provisioner.is_done(_volume("Released", reclaim="Retain"))
    assert not provisioner.is_done(_volume("Released", by="somebody.else"))


@pytest.mark.usefixtures("tools")
def test_the_class_is_the_default_one() -> None:
    (made,) = [each for each in api.addons() if each["kind"] == "StorageClass"]
    assert made["provisioner"] == api.PROVISIONER
    assert made["metadata"]["annotations"] == {
        "storageclass.kubernetes.io/is-default-class": "true"
    }
