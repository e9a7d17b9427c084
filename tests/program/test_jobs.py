"""What the program declares for jobs of each kind: with no engine and no cluster."""

import base64
import time
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.proto import resource_pb2

from tests.program import declared as mocked
from tests.program.declared import (
    PLAIN,
    Declare,
    Program,
    _Mocks,
    annotations,
    claims,
    container,
    declare,
    pod,
    secret,
)

RUN = "slipway:jobs:PyTorchJob"
TRAINER, BUILT = "localhost/slipway-trainer:0", "localhost/slipway-job-mine@sha256:1"
TINY = {"script": PLAIN, "cpu": "100m", "memory": "128Mi"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch) -> Program:
    """Declare one job of each kind."""
    own = tmp_path_factory.mktemp("own")
    (own / "Dockerfile").write_text("FROM scratch\n")
    volumes = {
        "data": {"hostPath": "/srv/data", "mountPath": "/mnt/data", "readOnly": True},
        "results": {"size": "1Gi", "mountPath": "/results"},
    }
    jobs = {
        "script": {"script": PLAIN, "workers": 1, "args": ["--epochs", 1]},
        "build": {"build": {"context": str(own)}},
        "mnist-gloo": {"volumes": volumes, "outputs": "file:///results"},
    }
    return declare({"cluster": {"kind": "embedded"}, "jobs": jobs}, machine)


def test_a_script_is_a_config_map_that_is_there_before_its_run(program: Program) -> None:
    run = program.one(RUN, "script")
    (script,) = (each for each in program.of("ConfigMap") if each.name.startswith("script-script-"))
    assert script.urn in run.dependencies
    assert script.inputs["immutable"] is True
    assert script.inputs["data"].keys() == {"plain.py"}
    (volume,) = (each for each in pod(run)["volumes"] if each["name"] == "script")
    assert volume["configMap"]["name"] == script.inputs["metadata"]["name"] == script.name
    mount = {"name": "script", "mountPath": "/opt/script", "readOnly": True}
    assert mount in container(run)["volumeMounts"]
    assert container(run)["command"][-1] == "/opt/script/plain.py"
    assert container(run)["args"] == ["--epochs", "1"]
    assert container(run)["image"] == TRAINER


def test_jobs_that_need_another_image_run_it_and_no_other_job_does(
    declared: Declare, tmp_path: Path
) -> None:
    """CIFAR-10 is in the image of the jobs that name it, and of no other; so is another torch."""
    script, folder = tmp_path / "train.py", tmp_path / "built"
    script.write_text("from torchvision.datasets import CIFAR10\n")
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG TRAINER\nFROM ${TRAINER}\nCOPY main.py .\n")
    (folder / "main.py").write_text("open('/data/cifar10/DATASET')\n")
    cifar = {
        "cifar-gloo": {},
        "by-script": {"script": str(script)},
        "by-argument": {"script": PLAIN, "args": ["/data/cifar10"]},
        "by-build": {"build": {"context": str(folder)}},
    }
    older = {"older": {"script": PLAIN, "torch": "2.6"}}
    program = declared(jobs={"mnist-gloo": {}, "silent": {"script": PLAIN}, **cifar, **older})
    users = {
        image.name: {run.name for run in program.of(RUN) if image.urn in program.needs(run)}
        for image in program.of("Image")
    }
    assert users == {
        "slipway-trainer": {"mnist-gloo", "silent"},
        "slipway-trainer-cifar": cifar.keys(),
        "slipway-trainer-2.6": older.keys(),
    }
    assert program.one("Image", "slipway-trainer").inputs["datasets"] == ["mnist"]
    assert program.one("Image", "slipway-trainer-2.6").inputs["torch"] == "2.6"


def test_a_built_image_is_run_by_its_digest(program: Program) -> None:
    run = program.one(RUN, "build")
    assert container(run)["image"] == BUILT
    assert program.one("JobImage").urn in run.dependencies
    assert not {"command", "args"} & container(run).keys()


def test_packages_are_an_image_over_the_trainers(declared: Declare) -> None:
    listed = "tests/policy/scripts/requirements.txt"
    fetched = {"url": "https://pictures.example/all.tar", "sha256": "0" * 64}
    other = {"script": PLAIN, "requirements": listed}
    jobs = {"mine": {**other, "data": fetched}, "other": other, "plain": {"script": PLAIN}}
    program = declared(jobs=jobs)
    image = program.one("JobImage")  # which both share
    assert image.urn in program.one(RUN, "other").dependencies
    assert image.inputs["requirements"].endswith(listed)
    assert image.inputs["trainer"] == TRAINER
    mine = program.one(RUN, "mine")
    [fetching] = pod(mine)["initContainers"]
    assert fetching["image"] == container(mine)["image"] == BUILT
    assert "/opt/script/plain.py" in container(mine)["command"]
    assert container(program.one(RUN, "plain"))["image"] == TRAINER


def test_a_secret_is_there_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TOKEN": {"config": "hfToken"}}
    settings = {"cluster": {"kind": "embedded"}, "jobs": {"mine": {"script": PLAIN, "env": env}}}
    program = declare(settings, monkeypatch, {"slipway:hfToken": "told-to-nobody"})
    made = program.one("Secret", "mine-env")
    assert made.urn in program.one(RUN).dependencies
    assert annotations(made)["slipway.dev/stack"] == "slipway/dev"
    coded = base64.b64encode(b"told-to-nobody").decode()
    assert made.inputs["data"] == secret({"TOKEN": coded})
    # What the API server answers is as secret.
    assert {*made.request.additionalSecretOutputs} == {"data", "stringData"}
    others = [each.inputs for each in program.resources if each is not made]
    assert not any(word in str(others) for word in ("told-to-nobody", coded))


def test_volumes_are_there_before_the_run_and_in_the_stacks_own_cluster(program: Program) -> None:
    run, namespace = program.one(RUN, "mnist-gloo"), program.one("Namespace", "slipway-jobs")
    bound = program.of("PersistentVolumeClaim")
    made = [*program.of("PersistentVolume"), *bound]
    provider = program.one("providers:kubernetes")
    assert len(made) == 2
    for each in made:
        assert each.urn in run.dependencies
        assert each.provider.startswith(provider.urn)
    claim = program.one("Claim", "mnist-gloo-results")
    assert claim.urn in run.dependencies
    assert claim.inputs["manifest"]["metadata"]["annotations"]["slipway.dev/stack"]
    assert sorted(claims(run)) == sorted([claim.name, *(each.name for each in bound)])
    for each in (*program.of("ConfigMap"), *bound, *program.of("Claim")):
        assert namespace.urn in program.needs(each)


def test_the_gate_judges_the_accuracy_where_the_job_says_one(program: Program) -> None:
    assert program.one("Gate", "mnist-gloo").inputs["minAccuracy"] == 0.97
    assert program.one("Gate", "script").inputs.get("minAccuracy") is None


def runs_before(program: Program, name: str) -> set[str]:
    """Return the runs and gates that a run can't do without."""
    needs = program.needs(program.one(RUN, name))
    return {each.name for each in (*program.of(RUN), *program.of("Gate")) if each.urn in needs}


def test_jobs_that_do_not_fit_take_turn(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    make = _Mocks.new_resource

    def timed(mocks: _Mocks, args: Any) -> tuple[str, dict[str, Any]]:
        if args.typ == RUN:
            began[args.name] = time.monotonic()
            time.sleep(0.2)
            ended[args.name] = time.monotonic()
        return make(mocks, args)

    def earlier(name: str) -> set[str]:
        return {other for other, end in ended.items() if end < began[name]}

    monkeypatch.setattr(_Mocks, "new_resource", timed)
    small, last = {"script": PLAIN, "cpu": "400m", "wait": False}, {"wait": False}
    program = declared(jobs={"a": small, "b": small, "c": small, "mnist-gloo": last})
    # Those that others wait for are not left to a waiter.
    assert [each.name for each in program.of(RUN) if "waiter" in each.inputs] == ["mnist-gloo"]
    assert earlier("a") == earlier("b") == set()
    assert earlier("c") >= {"a"}
    assert earlier("mnist-gloo") == {"a", "b", "c"}
    # Whatever becomes of the one that they wait for.
    assert all(runs_before(program, name) == set() for name in ("a", "b", "c", "mnist-gloo"))


def test_a_job_starts_after_the_gates_of_those_that_it_needs(declared: Declare) -> None:
    taken = {"net": {"job": "b", "artifact": "net.pt"}}
    last, storing = {"dependsOn": ["a"], "inputs": taken}, {"outputs": "abfs://results/b"}
    jobs = {"d": {**TINY, **last}, "a": TINY, "b": {**TINY, **storing}, "c": TINY}
    program = declared(jobs=jobs)
    assert runs_before(program, "d") == {"a", "b"}
    gates = {program.one("Gate", name).urn for name in ("a", "b")}
    assert gates <= program.needs(program.one(RUN, "d"))
    assert runs_before(program, "c") == set()
    assert program.outputs["notRun"] == {}


def test_a_run_mounts_what_it_takes(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    net = {"url": "file:///results/r/net.pt", "sha256": "1"}
    left = {"state": "Succeeded", "accuracy": 0.98, "artifacts": {"net.pt": {**net, "bytes": 9}}}
    monkeypatch.setitem(mocked.OUTPUTS, RUN, {"result": left})
    results = {"results": {"size": "1Gi", "mountPath": "/results"}}
    taken = {"net": {"job": "train", "artifact": "net.pt"}}
    train = {**TINY, "outputs": "file:///results", "volumes": results}
    program = declared(jobs={"train": train, "evaluate": {**TINY, "inputs": taken}})
    run = program.one(RUN, "evaluate")
    assert run.inputs["artifacts"] == {"net": net}
    assert "artifacts" not in program.one(RUN, "train").inputs
    (fetching,) = pod(run)["initContainers"]
    assert fetching["image"] == TRAINER
    assert "train-results" in claims(run)
    renamed = {"net": {"job": "teach", "artifact": "net.pt"}}
    jobs = {"teach": {**train, "was": "train"}, "evaluate": {**TINY, "inputs": renamed}}
    again = declared(jobs=jobs).one(RUN, "evaluate")
    assert again.inputs["job"] == run.inputs["job"], "another name of what it takes trains nothing"


def test_jobs_with_data_share_a_cache_that_goes_with_the_last(declared: Declare) -> None:
    data = {"url": "https://example.org/pictures.tar", "sha256": "a" * 64}
    program = declared(jobs={"a": {**TINY, "data": data}, "b": {**TINY, "data": data}, "c": TINY})
    cache = program.one("Claim", "slipway-data")
    for name, has_it in (("a", True), ("b", True), ("c", False)):
        run = program.one(RUN, name)
        assert ("slipway-data" in claims(run)) == has_it
        assert (cache.urn in program.needs(run)) == has_it
    assert cache.inputs["manifest"]["metadata"]["annotations"]["slipway.dev/kept"] == "false"


def test_a_job_not_run_has_no_result(
    declared: Declare, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    register = mocks.MockMonitor.RegisterResource

    def failing(monitor: mocks.MockMonitor, request: Any) -> Any:
        """Answer as the engine does for what failed: with neither ID nor outputs."""
        if (request.type, request.name) in {
            (RUN, "b"), ("slipway:jobs:Gate", "b"), ("slipway:jobs:Gate", "a")
        }:  # fmt: skip
            return resource_pb2.RegisterResourceResponse(result=resource_pb2.FAIL)
        return register(monitor, request)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(mocks.MockMonitor, "RegisterResource", failing)
    program = declared(jobs={"a": TINY, "b": {**TINY, "dependsOn": ["a"]}})
    assert program.outputs["jobs"].keys() == {"a"}
    reason = "it needs a, which failed its gate"
    assert program.outputs["notRun"] == {"b": reason}
    assert f"job b did not run: {reason}" in said


def test_outputs_leave_out_failure_logs(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = {"rank": 1, "exit_code": 3, "log": ["x"], "previous_log": ["y"], "events": []}
    failed = {"state": "Failed", "reason": "rank 1 exited with code 3", "failure": failure}
    monkeypatch.setitem(mocked.OUTPUTS, RUN, {"result": failed})
    program = declared(jobs={"a": TINY})
    told = {**failed, "failure": {"rank": 1, "exit_code": 3}}
    assert program.outputs["jobs"] == {"a": told}
    assert program.one("Gate", "a").inputs["result"] == failed


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"mnist-nccl": {}}, r"mnist-nccl\.backend: .*this cluster has none"),
        ({"mnist-gloo": {"workers": 20}}, r"mnist-gloo: its replicas request 21 x 400m cores"),
        ({"mnist-gloo": {"gpus": 1}}, r"gpus: 1 can't be provided: .*see https://"),
        ({"a": {"script": PLAIN, "dependsOn": ["b"]}}, r'a\.dependsOn\[0\]: there is no job "b"'),
        ({"mine": {"script": "nowhere.py"}}, r"mine\.script: .*neither a file nor a folder"),
    ],
)
def test_a_known_mistake_stops_the_update_before_anything_is_made(
    declared: Declare, made: list[str], jobs: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words):
        declared(jobs=jobs)
    assert made == []
