"""Inputs from other jobs, and data, are fetched before a program starts."""

import json
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.model.inputs import input_artifacts, other_volumes
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, Data, JobInput, SecretKey, Volume
from jobs.model.places import VOLUME_URL
from tests.unit import jobs_declared
from tests.unit.jobs_declared import rendered, variables

TRAINER, OWN = "localhost/slipway-trainer:1", "example.org/mine:1"
RESULT = {
    "state": "Succeeded",
    "artifacts": {  # In no order: they have travelled as a map.
        "nets/net.pt": {"url": "file:///results/r/nets/net.pt", "sha256": "1", "bytes": 9},
        "artifacts.json": {"url": "file:///results/r/artifacts.json", "sha256": "0", "bytes": 1},
    },
}
FOUND = {"model": {"url": "file:///results/r/nets/net.pt", "sha256": "1"}}


def other(claim: str, mount_path: str) -> dict[str, str]:
    return {"claim": claim, "mountPath": mount_path}


def job(**fields: Any) -> TrainingJob:
    taken = {"model": JobInput(job="train", artifact="nets/net.pt")}
    own = {"image": OWN, "command": ("x",), "inputs": taken, **fields}
    return TrainingJob(name="evaluate", **own)


def training(**fields: Any) -> TrainingJob:
    return TrainingJob(name="train", module="mnist", **fields)


def pods(job: TrainingJob, **others: Any) -> list[dict[str, Any]]:
    """Return the specs of the job's pods."""
    given = {"fetch_image": TRAINER, "artifacts": FOUND, **others}
    return [*jobs_declared.pods(rendered(job, "built:1", **given)).values()]


def fetching(pod: dict[str, Any]) -> Any:
    (container,) = pod["initContainers"]
    return container


def test_an_artifact_is_found_in_the_result_of_its_job() -> None:
    assert input_artifacts(job(), {"train": RESULT}) == FOUND
    missing = job(inputs={"model": JobInput(job="train", artifact="net.pt")})
    text = "input model: job train succeeded but left no artifact net.pt; its result lists "
    for result, listed in ((RESULT, "artifacts.json, nets/net.pt."), ({}, "none.")):
        with pytest.raises(RuntimeError, match=text + listed):
            pods(missing, artifacts=input_artifacts(missing, {"train": result}))


def test_every_pod_has_its_inputs_fetched_before_its_program_starts() -> None:
    for pod in pods(job(workers=1)):
        container = fetching(pod)

        (told,) = map(json.loads, container["args"])
        path = "/work/inputs/model/net.pt"
        taken = {"name": "model", "job": "train", "artifact": "nets/net.pt", "path": path}
        assert told == {**taken, **FOUND["model"]}
        (program,) = pod["containers"]

        for each in (container, program):
            assert {"name": "work", "mountPath": "/work"} in each["volumeMounts"]


def test_the_trainers_image_fetches_for_any_image() -> None:
    built = job(image=None, command=None, build=Build(context="x"))
    for declared, image in ((job(), OWN), (built, "built:1")):
        for pod in pods(declared):
            assert (fetching(pod)["image"], pod["containers"][0]["image"]) == (TRAINER, image)
    assert "initContainers" not in str(pods(job(inputs={})))


def test_it_has_what_the_program_has_but_for_gpus_and_variables_of_another_image() -> None:
    env = {"KEY": SecretKey(secret="hub", key="key"), "PYTHONPATH": "/srv", "PATH": "/opt/bin"}
    volumes = {"data": Volume(claim="team", mount_path="/mnt/data", read_only=True)}
    fields: dict[str, Any] = {"cpu": "2", "memory": "3Gi", "backend": "nccl"}
    for pod in pods(job(env=env, volumes=volumes, **fields)):
        container, (program,) = fetching(pod), pod["containers"]
        names = {each["name"] for each in container["env"]}
        assert {"KEY", "HOME", "SLIPWAY_RUN_ID"} <= names
        assert not {"PYTHONPATH", "PATH"} & names
        assert {"name": "PYTHONPATH", "value": "/srv"} in program["env"]
        mount = {"name": "data", "mountPath": "/mnt/data", "readOnly": True}
        assert mount in container["volumeMounts"]
        assert container["securityContext"] == program["securityContext"]
        for kind in ("requests", "limits"):
            declared = {**program["resources"][kind]}
            declared.pop("nvidia.com/gpu")
            assert container["resources"][kind] == declared


def test_nothing_in_a_files_name_is_taken_for_a_variable() -> None:
    strange = job(inputs={"model": JobInput(job="train", artifact="$(HOME) $.pt")})
    artifacts = {"model": {"url": "file:///r/$(HOME) $.pt", "sha256": "1"}}
    pod, *_ = pods(strange, artifacts=artifacts)
    (argument,) = fetching(pod)["args"]
    assert "$(" not in argument.replace("$$", "")
    assert json.loads(argument.replace("$$", "$"))["artifact"] == "$(HOME) $.pt"


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("file:///results/deep/er", other("train-results", "/results")),
        ("file:///results/inner/x", other("team", "/results/inner")),
        ("file:///elsewhere", None),
        ("abfs://results/mine", None),
        (None, other("slipway-kept", "/opt/kept")),
    ],
)
def test_an_inputs_volume_is_the_one_that_its_job_wrote_to(
    outputs: str | None, expected: Any
) -> None:
    volumes = {
        "results": Volume(size="1Gi", mount_path="/results"),
        "inner": Volume(claim="team", mount_path="/results/inner"),
        "gone": Volume(empty_dir=True, mount_path="/results/gone"),
    }
    others = {"train": training(outputs=outputs, volumes=volumes)}
    found = other_volumes(job(), others, has_volume=True)
    assert found == ({} if expected is None else {"model": expected})
    assert other_volumes(job(), {"train": training()}, has_volume=False) == {}


def test_the_volume_of_an_input_is_mounted_read_only_in_the_fetching_container() -> None:
    results = {"results": Volume(size="1Gi", mount_path="/results")}
    borrowed = {"model": other("train-results", "/results")}
    for pod in pods(job(volumes=results), input_volumes=borrowed):
        (volume,) = (each for each in pod["volumes"] if each["name"].startswith("lent-"))
        assert volume["persistentVolumeClaim"] == {"claimName": "train-results"}
        mount = {"name": volume["name"], "mountPath": "/opt/inputs/model", "readOnly": True}
        assert mount in fetching(pod)["volumeMounts"]
        assert volume["name"] not in str(pod["containers"])
        (told,) = map(json.loads, fetching(pod)["args"])
        assert told["mounted"] == ["/results", "/opt/inputs/model"]
        places = [each["mountPath"] for each in fetching(pod)["volumeMounts"]]
        assert len(places) == len(set(places))


@pytest.mark.parametrize(
    ("claim", "volumes", "place", "lent"),
    [
        ("team", {}, None, 1),
        ("team", {"mine": Volume(claim="team", mount_path="/mnt/a")}, None, 0),
        ("slipway-kept", {}, VOLUME_URL, 0),
    ],
    ids=["of another job", "of the job, too", "of the stack"],
)
def test_a_claim_is_one_volume_of_the_pod_however_many_inputs_lie_in_it(
    claim: str, volumes: dict[str, Volume], place: str | None, lent: int
) -> None:
    taken = {name: JobInput(job="train", artifact="nets/net.pt") for name in ("model", "again")}
    given = {"input_volumes": dict.fromkeys(taken, other(claim, "/results")), "place": place}
    pod, *_ = pods(job(inputs=taken, volumes=volumes), **given)
    names = [each["name"] for each in pod["volumes"]]
    assert len([name for name in names if name.startswith("lent-")]) == lent
    assert str(pod["volumes"]).count(f"'claimName': '{claim}'") == 1
    mounts = fetching(pod)["volumeMounts"]
    assert {each["name"] for each in mounts} <= set(names)
    assert len([each for each in mounts if each["mountPath"].startswith("/opt/inputs/")]) == 2


def test_in_a_preview_an_input_may_not_be_known_yet() -> None:
    for pod in pods(job(), artifacts=UNKNOWN):
        (told,) = map(json.loads, fetching(pod)["args"])
        assert not {"url", "sha256"} & told.keys()


SHA = "a" * 64
URL = Data(url="https://example.org/pictures.tar", sha256=SHA)


def with_data(keeps: bool = False, **fields: Any) -> dict[str, Any]:
    declared = {"data": URL, "inputs": {}, **fields}
    pod, *_ = pods(training(**declared), keeps_data=keeps)
    return pod


@pytest.mark.parametrize(
    ("keeps", "source"),
    [(True, {"persistentVolumeClaim": {"claimName": "slipway-data"}}), (False, {"emptyDir": {}})],
)
def test_data_are_found_by_their_sum_also_by_the_next_job_on_the_node(
    keeps: bool, source: dict[str, Any]
) -> None:
    pod = with_data(keeps)
    (argument,) = map(json.loads, fetching(pod)["args"])
    assert argument == {"url": URL.url, "sha256": SHA, "cache": "/opt/data"}
    mount = {"name": "slipway-data", "mountPath": "/opt/data"}
    assert mount in fetching(pod)["volumeMounts"]

    assert {"name": "slipway-data", **source} in pod["volumes"]
    taken = {"model": JobInput(job="train", artifact="net.pt")}
    beside, argument = map(json.loads, fetching(with_data(keeps, inputs=taken))["args"])
    assert (beside["name"], argument["cache"]) == ("model", "/opt/data")


def test_a_volume_of_the_job_may_keep_data_or_have_them() -> None:
    volumes = {"shared": Volume(claim="team", mount_path="/mnt/shared")}
    fetched = with_data(volumes=volumes, data=Data(url=URL.url, sha256=SHA, volume="shared"))
    assert variables(fetched)["SLIPWAY_DATA_DIR"] == f"/mnt/shared/{SHA}"
    there = with_data(volumes=volumes, data=Data(volume="shared"))
    assert variables(there)["SLIPWAY_DATA_DIR"] == "/mnt/shared"
    assert "initContainers" not in there
    assert "slipway-data" not in str([fetched, there])
