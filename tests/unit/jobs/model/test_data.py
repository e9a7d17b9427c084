"""A job's data are fetched before its program starts, into a cache that the node may keep."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from jobs.config import declare
from jobs.model.job import TrainingJob
from jobs.model.parts import Data, JobInput, Volume
from tests.unit.jobs_declared import pods, rendered, variables

SHA = "a" * 64
URL = Data(url="https://example.org/pictures.tar", sha256=SHA)


def pod(keeps: bool = False, **fields: Any) -> Any:
    job = TrainingJob(name="mine", **{"module": "mnist", "data": URL, **fields})
    return pods(rendered(job, keeps_data=keeps, artifacts={"model": {"sha256": "1"}}))["Master"]


def test_they_are_fetched_by_the_trainers_image_and_found_by_their_sum() -> None:
    found = pod()
    (fetching,) = found["initContainers"]
    (argument,) = map(json.loads, fetching["args"])
    assert argument == {"url": URL.url, "sha256": SHA, "cache": "/opt/data"}
    assert variables(found)["SLIPWAY_DATA_DIR"] == f"/opt/data/{SHA}"
    mount = {"name": "slipway-data", "mountPath": "/opt/data"}
    assert mount in fetching["volumeMounts"]
    assert {**mount, "readOnly": True} in found["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("keeps", "source"),
    [(True, {"persistentVolumeClaim": {"claimName": "slipway-data"}}), (False, {"emptyDir": {}})],
)
def test_the_next_job_finds_them_on_the_node(keeps: bool, source: dict[str, Any]) -> None:
    assert {"name": "slipway-data", **source} in pod(keeps)["volumes"]


def test_a_volume_of_the_job_may_keep_them_or_have_them() -> None:
    volumes = {"shared": Volume(claim="team", mount_path="/mnt/shared")}
    fetched = pod(volumes=volumes, data=Data(url=URL.url, sha256=SHA, volume="shared"))
    assert variables(fetched)["SLIPWAY_DATA_DIR"] == f"/mnt/shared/{SHA}"
    there = pod(volumes=volumes, data=Data(volume="shared"))
    assert variables(there)["SLIPWAY_DATA_DIR"] == "/mnt/shared"
    assert "initContainers" not in there
    for each in (fetched, there):
        assert "slipway-data" not in str(each)


def test_inputs_of_other_jobs_are_fetched_beside_them() -> None:
    (fetching,) = pod(inputs={"model": JobInput(job="train", artifact="net.pt")})["initContainers"]
    first, second = map(json.loads, fetching["args"])
    assert first["sha256"] == "1"
    assert second["cache"] == "/opt/data"


@pytest.mark.parametrize(
    ("data", "key", "text"),
    [
        ({}, "data", "requires a `url` and `sha256`, or a `volume`"),
        ({"url": URL.url}, "data.sha256", "is missing"),
        ({"url": URL.url, "sha256": "12"}, "data.sha256", '"12" is not allowed'),
        ({"volume": "images", "sha256": SHA}, "data.sha256", "requires a `url`"),
        ({"volume": "imges"}, "data.volume", 'did you mean "images"?'),
        ({"url": URL.url, "sha256": SHA, "volume": "images"}, "data.volume", "is read-only"),
        ({"url": "https://a:b@example.org/x", "sha256": SHA}, "data.url", "contains a password"),
        ({"url": "https://example.org/x?sig=y", "sha256": SHA}, "data.url", "contains a signature"),
    ],
)
def test_problems_are_reported_with_their_key(data: dict[str, str], key: str, text: str) -> None:
    images = {"claim": "team", "mountPath": "/mnt/images", "readOnly": True}
    problems = declare("mnist-gloo", {"data": data, "volumes": {"images": images}}, "jobs.mine")
    assert isinstance(problems, list)
    (problem,) = problems
    assert problem.key == f"jobs.mine.{key}"
    assert text in problem.text


def test_no_volume_may_hide_the_cache_or_have_its_name() -> None:
    for name, place in (("slipway-data", "/mnt/x"), ("mine", "/opt/data")):
        with pytest.raises(ValidationError):
            pod(volumes={name: Volume(claim="team", mount_path=place)})
