"""What the program declares for jobs of each kind: with no engine and no cluster."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.capacity import Capacity
from tests.program.declared import Declared, Program, declare

RUN, GATE, IMAGE = "slipway:jobs:PyTorchJob", "slipway:jobs:Gate", "slipway:images:JobImage"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
VOLUME, CLAIM = "kubernetes:core/v1:PersistentVolume", "kubernetes:core/v1:PersistentVolumeClaim"
PLAIN = "tests/policy/scripts/plain.py"

Declare = Callable[[dict[str, Any]], Program]


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Return what runs the program with jobs on a machine with 2 cores and 6 GiB."""
    room = Capacity(Decimal("1.94"), 5 * 2**30, 0, 1)
    monkeypatch.setattr("clusters.embedded.machine.capacity", lambda: room)

    def run(jobs: dict[str, Any]) -> Program:
        template = tmp_path / "dev.yaml"
        config = {"slipway:cluster": {"kind": "embedded"}, "slipway:jobs": jobs}
        template.write_text(yaml.safe_dump({"config": config}, sort_keys=False))
        return declare(template, monkeypatch)

    return run


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what takes the program's warnings."""
    texts: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: texts.append(text))
    return texts


def pod(run: Declared) -> dict[str, Any]:
    replicas = run.inputs["manifest"]["spec"]["pytorchReplicaSpecs"]
    found: dict[str, Any] = replicas["Master"]["template"]["spec"]
    return found


def container(run: Declared) -> dict[str, Any]:
    (only,) = pod(run)["containers"]
    found: dict[str, Any] = only
    return found


def test_a_script_is_a_config_map_that_is_there_before_its_run(declared: Declare) -> None:
    program = declared({"mine": {"script": PLAIN}})
    run = program.one(RUN, "mine")
    (script,) = (each for each in program.of(CONFIG_MAP) if each.name.startswith("mine-script-"))
    assert script.urn in run.dependencies
    assert script.inputs["immutable"] is True
    assert script.inputs["data"].keys() == {"plain.py"}
    (volume,) = (each for each in pod(run)["volumes"] if each["name"] == "script")
    assert volume["configMap"]["name"] == script.inputs["metadata"]["name"] == script.name
    assert container(run)["command"][-1] == "/opt/script/plain.py"
    assert container(run)["image"] == "localhost/slipway-trainer:0"


def test_a_script_needs_no_other_field(declared: Declare) -> None:
    args = ["--data-dir", "/data/cifar10", "--epochs", 1]
    program = declared({"mine": {"script": PLAIN, "workers": 1, "args": args}})
    assert container(program.one(RUN, "mine"))["args"] == [*map(str, args)]


def test_a_built_image_is_run_by_its_digest(declared: Declare, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/Dockerfile").write_text("FROM scratch\n")
    program = declared({"mine": {"build": {"context": str(tmp_path / "own")}}})
    run, image = program.one(RUN, "mine"), program.one(IMAGE)
    assert container(run)["image"] == "localhost/slipway-job-mine@sha256:1"
    assert image.urn in run.dependencies
    assert not {"command", "args"} & container(run).keys()


def test_volumes_are_there_before_the_run_and_in_the_stacks_own_cluster(
    declared: Declare,
) -> None:
    volumes = {
        "data": {"hostPath": "/srv/data", "mountPath": "/mnt/data", "readOnly": True},
        "results": {"size": "1Gi", "mountPath": "/results"},
    }
    program = declared({"mnist-gloo": {"volumes": volumes, "outputs": "file:///results"}})
    run, made = program.one(RUN), [*program.of(VOLUME), *program.of(CLAIM)]
    provider = program.one("pulumi:providers:kubernetes")
    assert len(made) == 3
    for each in made:
        assert each.urn in run.dependencies
        assert each.provider.startswith(provider.urn)
    claims = {each.name for each in program.of(CLAIM)}
    assert claims == {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod(run)["volumes"]
        if "persistentVolumeClaim" in volume
    }


def test_what_is_in_the_namespace_of_the_jobs_comes_after_it(declared: Declare) -> None:
    program = declared({"mine": {"script": PLAIN}})
    (namespace,) = (
        each
        for each in program.of("kubernetes:core/v1:Namespace")
        if each.inputs["metadata"]["name"] == "slipway-jobs"
    )
    (script,) = (each for each in program.of(CONFIG_MAP) if each.name.startswith("mine-script-"))
    assert namespace.urn in program.needs(script)


def test_jobs_that_do_not_fit_side_by_side_wait_for_those_before_them(declared: Declare) -> None:
    small = {"script": PLAIN, "cpu": "400m"}
    program = declared({"a": small, "b": small, "c": small, "mnist-gloo": {}})
    runs = {each.name: each for each in program.of(RUN)}
    before = {
        name: {other for other, each in runs.items() if each.urn in run.dependencies}
        for name, run in runs.items()
    }
    assert before == {"a": set(), "b": set(), "c": {"a", "b"}, "mnist-gloo": {"c"}}


def test_the_gate_judges_the_accuracy_where_the_job_says_one(declared: Declare) -> None:
    program = declared({"mnist-gloo": {}, "mine": {"script": PLAIN}})
    assert program.one(GATE, "mnist-gloo").inputs["minAccuracy"] == 0.97
    assert program.one(GATE, "mine").inputs.get("minAccuracy") is None


def test_a_warning_is_told_and_the_job_runs(declared: Declare, warned: list[str]) -> None:
    program = declared({"mine": {"script": "tests/policy/scripts/downloads.py"}})
    assert len(program.of(RUN)) == 1
    (text,) = warned
    assert text.startswith("slipway:jobs.mine.script: downloads data in each of its 2 ranks")


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ({"mnist-nccl": {}}, r"mnist-nccl\.backend: .*this cluster has none"),
        ({"mnist-gloo": {"workers": 20}}, r"mnist-gloo: its replicas ask for 21 x 400m cores"),
        ({"mnist-gloo": {"gangScheduling": True}}, r"gangScheduling: .*see https://"),
        ({"mine": {"script": "nowhere.py"}}, r"mine\.script: .*neither a file nor a folder"),
    ],
)
def test_a_known_mistake_stops_the_update_before_anything_is_made(
    declared: Declare, jobs: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    register = "tests.program.declared._Mocks.new_resource"
    monkeypatch.setattr(register, lambda _self, args: seen.append(args.typ))
    with pytest.raises(pulumi.RunError, match=words):
        declared(jobs)
    assert seen == []
