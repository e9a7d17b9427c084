"""Which pods of a job keep its files, and that this is no part of what it trains."""

import copy
from typing import Any

import pytest

from core.handler import Change
from jobs.model.job import TrainingJob
from jobs.model.kept import VOLUME_URL, keeping, mount, outputs_url
from jobs.model.parts import Elastic
from jobs.model.pytorchjob import manifest
from jobs.run.changes import is_in_place
from jobs.run.submit import spec_hash

URL = outputs_url(VOLUME_URL, "mine")


def rendered(**fields: Any) -> dict[str, Any]:
    job = TrainingJob(name="mine", script="train.py", **fields)
    object.__setattr__(job, "script", None)
    object.__setattr__(job, "image", "example.org/own:1")
    return manifest(job, namespace="n", service_account="s", trainer_image="i")


def keepers(job: dict[str, Any]) -> list[str]:
    """Return the roles whose pods are told where to keep files."""
    specs = job["spec"]["pytorchReplicaSpecs"]
    return [role for role in specs if "SLIPWAY_KEPT" in variables(job, role)]


def pod(job: dict[str, Any], role: str) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]
    return found


def variables(job: dict[str, Any], role: str) -> dict[str, Any]:
    (container,) = pod(job, role)["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


@pytest.mark.parametrize(
    ("fields", "roles"),
    [
        ({"workers": 2}, ["Master"]),
        ({"workers": 0}, ["Master"]),
        ({"workers": 3, "elastic": Elastic(min_replicas=2)}, ["Worker"]),
    ],
)
def test_rank_0_keeps_its_files_or_whoever_may_become_it(
    fields: dict[str, Any], roles: list[str]
) -> None:
    assert keepers(keeping(rendered(**fields), URL)) == roles


def test_it_has_the_volume_where_the_url_leads_and_time_to_copy() -> None:
    job = keeping(rendered(), URL)
    master = pod(job, "Master")
    assert variables(job, "Master")["SLIPWAY_KEPT"] == "file:///opt/kept/outputs/mine"
    claim = {"claimName": "slipway-kept"}
    assert {"name": "slipway-kept", "persistentVolumeClaim": claim} in master["volumes"]
    mounts = master["containers"][0]["volumeMounts"]
    assert {"name": "slipway-kept", "mountPath": "/opt/kept"} in mounts
    assert master["terminationGracePeriodSeconds"] == 60
    assert pod(job, "Worker")["terminationGracePeriodSeconds"] == 10


def test_a_store_of_a_cloud_takes_no_volume() -> None:
    job = keeping(rendered(), "abfs://artifacts@account.dfs.core.windows.net/slipway/outputs/mine")
    assert keepers(job) == ["Master"]
    assert "slipway-kept" not in str(pod(job, "Master")["volumes"])


def test_a_pod_has_the_volume_once_whoever_else_needs_it() -> None:
    master = pod(keeping(rendered(), URL), "Master")
    again = copy.deepcopy(master)
    mount(again)
    assert again == master


def test_where_files_are_kept_is_no_part_of_what_is_trained() -> None:
    job = rendered()
    before = spec_hash(job)
    assert keeping(job, None) == job
    assert keeping(job, URL) != job
    assert spec_hash(job) == before, "the manifest itself stays as it is"
    assert is_in_place(Change("kept", "add"))
