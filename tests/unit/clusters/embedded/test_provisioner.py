"""Which claims get a volume, and what it is."""

import stat
from pathlib import Path
from typing import Any

from clusters.embedded import provisioner
from clusters.embedded.layout import PROVISIONER
from core import kube
from tests.unit.fake_api import FakeApi, served


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


def test_a_claim_waits_until_it_has_a_volume_or_is_being_deleted() -> None:
    assert provisioner.is_waiting(_claim())
    assert not provisioner.is_waiting(_claim(volumeName="pvc-u-1"))
    assert not provisioner.is_waiting(_claim(storageClassName=""))
    deleted = _claim()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not provisioner.is_waiting(deleted)
    # A claim for a copy gets no empty volume.
    assert not provisioner.is_waiting(_claim(dataSourceRef={"kind": "VolumeSnapshot", "name": "s"}))


def _volume(phase: str, reclaim: str = "Delete", by: str = PROVISIONER) -> dict[str, Any]:
    made = provisioner.volume(_claim(), reclaim, Path("/volumes/pvc-u-1"), "node")
    made["metadata"]["annotations"] = {provisioner.PROVISIONED_BY: by}
    return {**made, "status": {"phase": phase}}


def test_data_is_removed_only_from_released_volumes_without_retain() -> None:
    phases = ("Released", "Failed", "Bound", "Pending")
    found = [provisioner.is_done(_volume(phase)) for phase in phases]
    assert found == [True, True, False, False]
    assert not provisioner.is_done(_volume("Released", reclaim="Retain"))
    assert not provisioner.is_done(_volume("Released", by="somebody.else"))


def test_a_claim_of_this_class_alone_gets_a_directory_for_every_user(tmp_path: Path) -> None:
    with served(FakeApi()) as api:
        ours = provisioner.Provisioner(kube.connect(api.kubeconfig), tmp_path, "node")
        ours.provide(_claim())  # of a class that does not exist
        place = "/apis/storage.k8s.io/v1/storageclasses/slipway-directory"
        api.says("GET", place, {"provisioner": "another", "reclaimPolicy": "Delete"})
        ours.provide(_claim())
        assert list(tmp_path.iterdir()) == []
        api.says("GET", place, {"provisioner": PROVISIONER, "reclaimPolicy": "Retain"})
        api.says("POST", "/api/v1/persistentvolumes", {"kind": "Status"}, status=409)
        ours.provide(_claim())  # the volume is there already
    assert stat.S_IMODE((tmp_path / "pvc-u-1").stat().st_mode) == 0o777
    (made,) = [body for method, _, body in api.asked if method == "POST"]
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"


def test_a_volume_goes_with_its_directory_and_one_that_lies_elsewhere_stays(tmp_path: Path) -> None:
    with served(FakeApi()) as api:
        ours = provisioner.Provisioner(kube.connect(api.kubeconfig), tmp_path, "node")
        directory = tmp_path / "pvc-u-1"
        directory.mkdir()
        ours.remove(_volume("Released"))  # it is at /volumes
        assert directory.exists()
        done = _volume("Released")
        done["spec"]["local"]["path"] = str(directory)
        for _ in range(2):
            ours.remove(done)
    assert not directory.exists()
    deleted = [path for method, path, _ in api.asked if method == "DELETE"]
    assert deleted == ["/api/v1/persistentvolumes/pvc-u-1"] * 2
