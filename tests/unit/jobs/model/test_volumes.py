"""The claims and volumes that a job brings along bind to each other and to nothing else."""

from typing import Any

import pytest

from jobs.model.job import TrainingJob
from jobs.model.parts import Volume
from jobs.model.volumes import claims, host_volumes
from tests.unit.jobs_declared import pods, rendered


def job(**volumes: Volume) -> TrainingJob:
    return TrainingJob(name="mine", module="mnist", volumes=volumes)


def made(found: TrainingJob) -> list[dict[str, Any]]:
    return list(host_volumes(found, "slipway-jobs"))


def claims_in_pod(found: TrainingJob) -> set[str]:
    pod = pods(rendered(found))["Worker"]
    known = [each.get("persistentVolumeClaim") for each in pod["volumes"]]
    return {each["claimName"] for each in known if each is not None}


def test_what_is_there_or_empty_needs_nothing() -> None:
    own = job(
        a=Volume(claim="there", mount_path="/a"),
        b=Volume(empty_dir=True, mount_path="/b"),
        c=Volume(empty_dir="1Gi", mount_path="/c"),
    )
    assert made(own) == []
    assert claims_in_pod(own) == {"there"}


def test_a_size_is_a_claim_of_the_default_storage_class() -> None:
    own = job(results=Volume(size="5Gi", mount_path="/results"))
    assert made(own) == []
    ((claim, keep),) = claims(own, "slipway-jobs")
    assert keep
    assert claim["kind"] == "PersistentVolumeClaim"
    size = {"requests": {"storage": "5Gi"}}
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": size}
    assert claims_in_pod(own) == {claim["metadata"]["name"]} == {"mine-results"}


@pytest.mark.parametrize(("keep", "kept"), [(None, True), (True, True), (False, False)])
def test_a_claim_is_kept_unless_its_volume_says_otherwise(keep: bool | None, kept: bool) -> None:
    own = job(results=Volume(size="5Gi", keep=keep, mount_path="/results"))
    assert [found for _, found in claims(own, "slipway-jobs")] == [kept]


def test_a_host_path_is_a_volume_and_the_only_claim_that_may_have_it() -> None:
    own = job(data=Volume(host_path="/srv/data", mount_path="/mnt/data", read_only=True))
    volume, claim = made(own)
    assert volume["kind"] == "PersistentVolume"
    assert "namespace" not in volume["metadata"]
    assert volume["spec"]["hostPath"] == {"path": "/srv/data", "type": "Directory"}
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    reference = volume["spec"]["claimRef"]
    assert {key: reference[key] for key in ("namespace", "name")}.items() <= claim[
        "metadata"
    ].items()
    name = f"slipway-jobs-{claim['metadata']['name']}"
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"] == name
    for each in (volume, claim):
        assert each["spec"]["storageClassName"] == ""
        assert each["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert claims_in_pod(own) == {claim["metadata"]["name"]}
    written = made(job(data=Volume(host_path="/srv/data", mount_path="/mnt/data")))
    assert [each["spec"]["accessModes"] for each in written] == [["ReadWriteOnce"]] * 2
