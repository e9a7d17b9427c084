"""What a run takes from others is found in their results, and told to its pods."""

import json
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.model.inputs import input_artifacts, other_volumes
from jobs.model.job import TrainingJob
from jobs.model.parts import Build, JobInput, SecretKey, Volume
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


def test_where_an_artifact_is_and_what_it_has_to_be_is_in_the_result_of_its_job() -> None:
    assert input_artifacts(job(), {"train": RESULT}) == FOUND


def test_a_missing_artifact_is_reported_with_the_existing_ones() -> None:
    other = job(inputs={"model": JobInput(job="train", artifact="net.pt")})
    with pytest.raises(RuntimeError) as raised:
        pods(other, artifacts=input_artifacts(other, {"train": RESULT}))
    missing = "input model: job train succeeded but left no artifact net.pt; its result lists "
    assert str(raised.value).startswith(f"{missing}artifacts.json, nets/net.pt.")
    with pytest.raises(RuntimeError, match="its result lists none"):
        pods(other, artifacts=input_artifacts(other, {"train": {"state": "Succeeded"}}))


def test_every_pod_has_its_inputs_fetched_before_its_program_starts() -> None:
    for pod in pods(job(workers=1)):
        container = fetching(pod)
        assert container["command"] == ["python3", "-m", "slipway_trainer.inputs"]
        (told,) = map(json.loads, container["args"])
        path = "/work/inputs/model/net.pt"
        taken = {"name": "model", "job": "train", "artifact": "nets/net.pt", "path": path}
        assert told == {**taken, **FOUND["model"]}
        (program,) = pod["containers"]
        assert variables(pod)["SLIPWAY_INPUT_MODEL"] == path
        for each in (container, program):
            assert {"name": "work", "mountPath": "/work"} in each["volumeMounts"]


@pytest.mark.parametrize("program", [{"build": Build(context="x")}, {"module": "mnist"}, None])
def test_the_trainers_image_fetches_for_any_image(program: dict[str, Any] | None) -> None:
    other: dict[str, Any] = {} if program is None else {"image": None, "command": None, **program}
    for pod in pods(job(**other)):
        assert fetching(pod)["image"] == TRAINER
        assert pod["containers"][0]["image"] == (OWN if program is None else "built:1")
    assert "initContainers" not in str(pods(job(inputs={})))


def test_it_has_the_jobs_volumes_and_variables_but_those_of_another_image() -> None:
    env = {"KEY": SecretKey(secret="hub", key="key"), "PYTHONPATH": "/srv", "PATH": "/opt/bin"}
    volumes = {"data": Volume(claim="team", mount_path="/mnt/data", read_only=True)}
    for pod in pods(job(env=env, volumes=volumes)):
        names = {each["name"] for each in fetching(pod)["env"]}
        assert {"KEY", "HOME", "SLIPWAY_RUN_ID"} <= names
        assert not {"PYTHONPATH", "PATH"} & names
        mount = {"name": "data", "mountPath": "/mnt/data", "readOnly": True}
        assert mount in fetching(pod)["volumeMounts"]


def test_pod_security_restricted_admits_it_and_the_pod_asks_for_no_more() -> None:
    for pod in pods(job(cpu="2", memory="3Gi", backend="nccl")):
        container, (program,) = fetching(pod), pod["containers"]
        assert container["securityContext"] == program["securityContext"]
        gpu = "nvidia.com/gpu"
        for kind in ("requests", "limits"):
            expected = {k: v for k, v in program["resources"][kind].items() if k != gpu}
            assert container["resources"][kind] == expected


def test_nothing_in_a_files_name_is_taken_for_a_variable() -> None:
    strange = job(inputs={"model": JobInput(job="train", artifact="$(HOME) $.pt")})
    artifacts = {"model": {"url": "file:///r/$(HOME) $.pt", "sha256": "1"}}
    pod, *_ = pods(strange, artifacts=artifacts)
    (argument,) = fetching(pod)["args"]
    assert "$(" not in argument.replace("$$", "")
    assert json.loads(argument.replace("$$", "$"))["artifact"] == "$(HOME) $.pt"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"outputs": "abfs://results/mine"}, None),
        ({}, other("train-results", "/results")),
        ({"outputs": "file:///results/deep/er"}, other("train-results", "/results")),
        ({"outputs": "file:///results/inner/x"}, other("team", "/results/inner")),
        ({"outputs": "file:///elsewhere"}, None),
    ],
)
def test_an_inputs_volume_is_mounted(fields: dict[str, Any], expected: Any) -> None:
    volumes = {
        "results": Volume(size="1Gi", mount_path="/results"),
        "inner": Volume(claim="team", mount_path="/results/inner"),
        "gone": Volume(empty_dir=True, mount_path="/results/gone"),
    }
    others = {"train": training(**{"outputs": "file:///results", "volumes": volumes, **fields})}
    found = other_volumes(job(), others, has_volume=True)
    assert found == ({} if expected is None else {"model": expected})


def test_a_job_without_outputs_has_left_its_files_on_the_stacks_volume_where_there_is_one() -> None:
    others = {"train": training()}
    lent = {"model": other("slipway-kept", "/opt/kept")}
    assert other_volumes(job(), others, has_volume=True) == lent
    assert other_volumes(job(), others, has_volume=False) == {}
    pod, *_ = pods(job(), input_volumes=lent, place=VOLUME_URL)
    assert str(pod["volumes"]).count("slipway-kept") == 2, "one volume, by its name and claim"
    mount = {"name": "slipway-kept", "mountPath": "/opt/inputs/model", "readOnly": True}
    assert mount in fetching(pod)["volumeMounts"]


def test_the_volume_of_an_input_is_mounted_read_only_in_the_fetching_container() -> None:
    borrowed = {"model": other("train-results", "/results")}
    own = {"results": Volume(size="1Gi", mount_path="/results")}
    for pod in pods(job(volumes=own), input_volumes=borrowed):
        (volume,) = (each for each in pod["volumes"] if each["name"].startswith("lent-"))
        assert volume["persistentVolumeClaim"] == {"claimName": "train-results"}
        mount = {"name": volume["name"], "mountPath": "/opt/inputs/model", "readOnly": True}
        assert mount in fetching(pod)["volumeMounts"]
        assert volume["name"] not in str(pod["containers"])
        (told,) = map(json.loads, fetching(pod)["args"])
        assert told["mounted"] == ["/results", "/opt/inputs/model"]
        places = [each["mountPath"] for each in fetching(pod)["volumeMounts"]]
        assert len(places) == len(set(places))


def test_a_claim_is_one_volume_of_the_pod_however_many_inputs_lie_in_it() -> None:
    taken = {name: JobInput(job="train", artifact="nets/net.pt") for name in ("model", "again")}
    borrowed = dict.fromkeys(taken, other("team", "/results"))
    for volumes, count in (({}, 1), ({"mine": Volume(claim="team", mount_path="/mnt/a")}, 0)):
        pod, *_ = pods(job(inputs=taken, volumes=volumes), input_volumes=borrowed)
        assert len([each for each in pod["volumes"] if each["name"].startswith("lent-")]) == count
        mounts = fetching(pod)["volumeMounts"]
        assert {each["name"] for each in mounts} <= {each["name"] for each in pod["volumes"]}
        assert len([each for each in mounts if each["mountPath"].startswith("/opt/inputs/")]) == 2


def test_in_a_preview_an_input_may_not_be_known_yet() -> None:
    for pod in pods(job(), artifacts=UNKNOWN):
        (told,) = map(json.loads, fetching(pod)["args"])
        assert not {"url", "sha256"} & told.keys()
