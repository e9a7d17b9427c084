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
    Declare,
    Declared,
    Program,
    _Mocks,
    container,
    declare,
    pod,
    secret,
)

RUN, GATE, IMAGE = "slipway:jobs:PyTorchJob", "slipway:jobs:Gate", "slipway:images:JobImage"
TRAINER = "slipway:images:Image"
CONFIG_MAP, SECRET = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Secret"
VOLUME, BOUND = "kubernetes:core/v1:PersistentVolume", "kubernetes:core/v1:PersistentVolumeClaim"
CLAIM = "slipway:jobs:Claim"
PLAIN = "tests/policy/scripts/plain.py"
VOLUMES = {
    "data": {"hostPath": "/srv/data", "mountPath": "/mnt/data", "readOnly": True},
    "results": {"size": "1Gi", "mountPath": "/results"},
}

TINY = {"script": PLAIN, "cpu": "100m", "memory": "128Mi"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch) -> Program:
    """Return what is declared for one job of each kind."""
    directory = tmp_path_factory.mktemp("jobs")
    (directory / "own").mkdir()
    (directory / "own/Dockerfile").write_text("FROM scratch\n")
    (directory / "script/lib").mkdir(parents=True)
    (directory / "script/train.py").write_text("import lib.net\n")
    (directory / "script/lib/net.py").write_text("")
    (directory / "script/weights.bin").write_bytes(b"\xff\0")
    args = ["--data-dir", "/data", "--epochs", 1]
    jobs = {
        "script": {"script": str(directory / "script"), "workers": 1, "args": args},
        "build": {"build": {"context": str(directory / "own")}},
        "mnist-gloo": {"volumes": VOLUMES, "outputs": "file:///results"},
    }
    return declare({"cluster": {"kind": "embedded"}, "jobs": jobs}, machine)


def script_of(program: Program) -> Declared:
    (found,) = (each for each in program.of(CONFIG_MAP) if each.name.startswith("script-script-"))
    return found


def test_a_script_is_a_config_map_that_is_there_before_its_run(program: Program) -> None:
    run, script = program.one(RUN, "script"), script_of(program)
    assert script.urn in run.dependencies
    assert script.inputs["immutable"] is True
    assert script.inputs["data"] == {"train.py": "import lib.net\n", "lib_net.py": ""}
    assert script.inputs["binaryData"] == {"weights.bin": "/wA="}
    (volume,) = (each for each in pod(run)["volumes"] if each["name"] == "script")
    assert volume["configMap"]["name"] == script.inputs["metadata"]["name"] == script.name
    assert {"key": "lib_net.py", "path": "lib/net.py"} in volume["configMap"]["items"]
    mount = {"name": "script", "mountPath": "/opt/script", "readOnly": True}
    assert mount in container(run)["volumeMounts"]
    assert container(run)["command"][-1] == "/opt/script/train.py"
    assert container(run)["args"] == ["--data-dir", "/data", "--epochs", "1"]
    assert container(run)["image"] == "localhost/slipway-trainer:0"


def test_jobs_that_say_cifar_run_an_image_of_their_own(declared: Declare, tmp_path: Path) -> None:
    """CIFAR-10 is in the image of the jobs that say so, and of no other."""
    script, folder = tmp_path / "train.py", tmp_path / "built"
    script.write_text("from torchvision.datasets import CIFAR10\n")
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG TRAINER\nFROM ${TRAINER}\nCOPY main.py .\n")
    (folder / "main.py").write_text("open('/data/cifar10/DATASET')\n")
    saying = {
        "cifar-gloo": {},
        "by-script": {"script": str(script)},
        "by-argument": {"script": PLAIN, "args": ["/data/cifar10"]},
        "by-build": {"build": {"context": str(folder)}},
    }
    program = declared(jobs={"mnist-gloo": {}, "silent": {"script": PLAIN}, **saying})
    image = program.one(TRAINER, "slipway-trainer-cifar").urn
    assert {run.name for run in program.of(RUN) if image in program.needs(run)} == saying.keys()
    (other,) = (each for each in program.of(TRAINER) if each.urn != image)
    assert other.name == "slipway-trainer"
    assert other.inputs["datasets"] == ["mnist"]


def test_jobs_with_another_torch_run_an_image_of_their_own(declared: Declare) -> None:
    program = declared(jobs={"mnist-gloo": {}, "older": {"script": PLAIN, "torch": "2.6"}})
    image = program.one(TRAINER, "slipway-trainer-2.6")
    assert image.inputs["torch"] == "2.6"
    assert [run.name for run in program.of(RUN) if image.urn in program.needs(run)] == ["older"]


def test_a_built_image_is_run_by_its_digest(program: Program) -> None:
    run, image = program.one(RUN, "build"), program.one(IMAGE)
    assert container(run)["image"] == "localhost/slipway-job-mine@sha256:1"
    assert image.urn in run.dependencies
    assert not {"command", "args"} & container(run).keys()


def test_packages_are_an_image_over_the_trainers(declared: Declare) -> None:
    listed = "tests/policy/scripts/requirements.txt"
    fetched = {"url": "https://pictures.example/all.tar", "sha256": "0" * 64}
    other = {"script": PLAIN, "requirements": listed}
    jobs = {"mine": {**other, "data": fetched}, "other": other, "plain": {"script": PLAIN}}
    program = declared(jobs=jobs)
    image = program.one(IMAGE)  # which both share
    assert image.urn in program.one(RUN, "other").dependencies
    assert image.inputs["requirements"].endswith(listed)
    assert image.inputs["trainer"] == "localhost/slipway-trainer:0"
    assert container(program.one(RUN, "mine"))["image"] == "localhost/slipway-job-mine@sha256:1"
    [fetching] = pod(program.one(RUN, "mine"))["initContainers"]
    assert fetching["image"] == "localhost/slipway-job-mine@sha256:1"
    assert container(program.one(RUN, "plain"))["image"] == "localhost/slipway-trainer:0"
    assert "/opt/script/plain.py" in container(program.one(RUN, "mine"))["command"]


def test_a_secret_is_there_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"TOKEN": {"config": "hfToken"}}
    settings = {"cluster": {"kind": "embedded"}, "jobs": {"mine": {"script": PLAIN, "env": env}}}
    program = declare(settings, monkeypatch, {"slipway:hfToken": "told-to-nobody"})
    (made,) = (each for each in program.of(SECRET) if each.name == "mine-env")
    run = program.one(RUN)
    assert made.urn in run.dependencies
    assert made.inputs["metadata"]["annotations"]["slipway.dev/stack"] == "slipway/dev"
    coded = base64.b64encode(b"told-to-nobody").decode()
    assert made.inputs["data"] == secret({"TOKEN": coded})
    others = [each.inputs for each in program.resources if each is not made]
    assert not any(word in str(others) for word in ("told-to-nobody", coded))


def test_volumes_are_there_before_the_run_and_in_the_stacks_own_cluster(program: Program) -> None:
    run, made = program.one(RUN, "mnist-gloo"), [*program.of(VOLUME), *program.of(BOUND)]
    provider = program.one("pulumi:providers:kubernetes")
    assert len(made) == 2
    for each in made:
        assert each.urn in run.dependencies
        assert each.provider.startswith(provider.urn)
    claim = program.one(CLAIM, "mnist-gloo-results")
    assert claim.urn in run.dependencies
    assert claim.inputs["manifest"]["metadata"]["annotations"]["slipway.dev/stack"]
    assert {claim.name, *(each.name for each in program.of(BOUND))} == {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod(run)["volumes"]
        if "persistentVolumeClaim" in volume
    }


def test_what_is_in_the_namespace_of_the_jobs_comes_after_it(program: Program) -> None:
    namespace = program.one("kubernetes:core/v1:Namespace", "slipway-jobs")
    for each in (script_of(program), *program.of(BOUND), *program.of(CLAIM)):
        assert namespace.urn in program.needs(each)


def test_the_gate_judges_the_accuracy_where_the_job_says_one(program: Program) -> None:
    assert program.one(GATE, "mnist-gloo").inputs["minAccuracy"] == 0.97
    assert program.one(GATE, "script").inputs.get("minAccuracy") is None


class Times:
    """When each run was made, as seen by the mocks: it takes a moment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        make = _Mocks.new_resource

        def timed(mocks: _Mocks, args: Any) -> tuple[str, dict[str, Any]]:
            if args.typ == RUN:
                self.began[args.name] = time.monotonic()
                time.sleep(0.2)
                self.ended[args.name] = time.monotonic()
            return make(mocks, args)

        monkeypatch.setattr(_Mocks, "new_resource", timed)

    def before(self, name: str) -> set[str]:
        """Return the runs that had ended when one began."""
        return {other for other, end in self.ended.items() if end < self.began[name]}


def runs_before(program: Program, name: str) -> set[str]:
    """Return the runs and gates that a run can't do without."""
    needs = program.needs(program.one(RUN, name))
    return {each.name for each in (*program.of(RUN), *program.of(GATE)) if each.urn in needs}


def test_jobs_that_do_not_fit_take_turn(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    times, small = Times(monkeypatch), {"script": PLAIN, "cpu": "400m"}
    program = declared(jobs={"a": small, "b": small, "c": small, "mnist-gloo": {}})
    assert times.before("a") == times.before("b") == set()
    assert times.before("c") >= {"a"}
    assert times.before("mnist-gloo") == {"a", "b", "c"}
    # Whatever becomes of the one that they wait for.
    assert all(runs_before(program, name) == set() for name in ("a", "b", "c", "mnist-gloo"))


def test_a_job_starts_after_the_gates_of_those_that_it_needs(declared: Declare) -> None:
    taken = {"net": {"job": "b", "artifact": "net.pt"}}
    last, storing = {"dependsOn": ["a"], "inputs": taken}, {"outputs": "abfs://results/b"}
    jobs = {"d": {**TINY, **last}, "a": TINY, "b": {**TINY, **storing}, "c": TINY}
    program = declared(jobs=jobs)
    assert runs_before(program, "d") == {"a", "b"}
    gates = {name: program.one(GATE, name).urn for name in ("a", "b")}
    assert set(gates.values()) <= program.needs(program.one(RUN, "d"))
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
    assert fetching["image"] == "localhost/slipway-trainer:0"
    claims = [each.get("persistentVolumeClaim") for each in pod(run)["volumes"]]
    assert {"claimName": "train-results"} in claims


def test_jobs_with_data_share_a_cache_that_goes_with_the_last(declared: Declare) -> None:
    data = {"url": "https://example.org/pictures.tar", "sha256": "a" * 64}
    program = declared(jobs={"a": {**TINY, "data": data}, "b": {**TINY, "data": data}, "c": TINY})
    cache = program.one(CLAIM, "slipway-data")
    shared = {"claimName": "slipway-data"}
    for name, has_it in (("a", True), ("b", True), ("c", False)):
        run = program.one(RUN, name)
        claims = [each.get("persistentVolumeClaim") for each in pod(run)["volumes"]]
        assert (shared in claims) == has_it
        assert (cache.urn in program.needs(run)) == has_it
    assert cache.inputs["manifest"]["metadata"]["annotations"]["slipway.dev/kept"] == "false"


def test_a_job_not_run_has_no_result(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    register = mocks.MockMonitor.RegisterResource

    def failing(monitor: mocks.MockMonitor, request: Any) -> Any:
        """Answer as the engine does for what failed: with neither ID nor outputs."""
        if (request.type, request.name) in {(RUN, "b"), (GATE, "b"), (GATE, "a")}:
            return resource_pb2.RegisterResourceResponse(result=resource_pb2.FAIL)
        return register(monitor, request)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(mocks.MockMonitor, "RegisterResource", failing)
    told: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: told.append(text))
    program = declared(jobs={"a": TINY, "b": {**TINY, "dependsOn": ["a"]}})
    assert program.outputs["jobs"].keys() == {"a"}
    reason = "it needs a, which failed its gate"
    assert program.outputs["notRun"] == {"b": reason}
    assert f"job b did not run: {reason}" in told


def test_outputs_leave_out_failure_logs(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = {"rank": 1, "exit_code": 3, "log": ["x"], "previous_log": ["y"], "events": []}
    failed = {"state": "Failed", "reason": "rank 1 exited with code 3", "failure": failure}
    monkeypatch.setitem(mocked.OUTPUTS, RUN, {"result": failed})
    program = declared(jobs={"a": TINY})
    told = {**failed, "failure": {"rank": 1, "exit_code": 3}}
    assert program.outputs["jobs"] == {"a": told}
    assert program.one(GATE, "a").inputs["result"] == failed


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
