"""The tracking server that a stack declares, and what the pods of each run get of it."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.kubeconfig import cluster as existing
from clusters.kubeconfig.choice import Choice
from clusters.kubeconfig.found import Found
from tests.program.declared import Program, declare, secret

JOB, CLAIM, READY = (
    f"slipway:{each}" for each in ("jobs:PyTorchJob", "jobs:Claim", "infra:TrackingReady")
)
IMAGE, DEPLOYMENT = "slipway:images:Image", "kubernetes:apps/v1:Deployment"
SECRET = "kubernetes:core/v1:Secret"


def declared(
    tmp_path: Path, patch: pytest.MonkeyPatch, tracking: Any = None, **others: Any
) -> Program:
    """Run the program on these settings of `slipway:tracking`."""
    jobs = {"mnist-gloo": {"cpu": "100m"}}
    config: dict[str, Any] = {
        "slipway:cluster": {"kind": "embedded"},
        "slipway:jobs": jobs,
        **others,
    }
    if tracking is not None:
        config["slipway:tracking"] = tracking
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"config": config}))
    return declare(file, patch)


def names(program: Program, type_: str) -> list[str]:
    return sorted(each.name for each in program.of(type_))


def test_without_tracking_nothing_is_declared(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    """Without `slipway:tracking` nothing is built and nothing declared."""
    program = declared(tmp_path, machine)
    assert names(program, IMAGE) == ["slipway-trainer"]
    assert names(program, CLAIM) == ["slipway-kept"]
    assert program.of(READY) == []
    assert "tracking" not in program.one(JOB).inputs


def test_jobs_wait_for_the_tracking_server(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    """Jobs start when the tracking server answers."""
    program = declared(tmp_path, machine, {"kind": "mlflow"})
    job, ready = program.one(JOB), program.one(READY)
    assert names(program, IMAGE) == ["slipway-mlflow", "slipway-trainer"]
    assert ready.urn in program.needs(job)
    assert ready.inputs["deployments"] == ["mlflow"]
    for needed in (program.one(DEPLOYMENT, "mlflow"), program.one(CLAIM, "slipway-tracking")):
        assert needed.urn in program.needs(ready)
    assert job.inputs["tracking"] == {
        "kind": "mlflow",
        "url": "http://mlflow:5000",
        "address": "http://localhost:5000",
        "experiment": "mine/mnist-gloo",
    }


def test_postgresqls_password_is_made_once(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    """PostgreSQL's password is made once, and encrypted in the state."""
    program = declared(tmp_path, machine, {"kind": "mlflow", "database": "postgresql"})
    assert names(program, IMAGE) == ["slipway-mlflow", "slipway-postgres", "slipway-trainer"]
    password = program.one(SECRET, "mlflow-database")
    assert password.inputs["data"] == secret(password.inputs["data"]["value"])
    assert password.ignored == ("data",)
    again = declared(tmp_path, machine, {"kind": "mlflow", "database": "postgresql"})
    assert again.one(SECRET, "mlflow-database").inputs["data"] != password.inputs["data"]
    ready = program.one(READY)
    assert ready.inputs["deployments"] == ["mlflow-database", "mlflow"]
    assert again.one(READY).inputs["rollout"] == ready.inputs["rollout"], "it would be waited for"


@pytest.mark.parametrize(
    ("tracking", "place"),
    [
        (
            {"kind": "mlflow", "url": "https://m.example/"},
            {"url": "https://m.example", "address": "https://m.example"},
        ),
        ({"kind": "wandb"}, {}),
        ({"kind": "tensorboard"}, {}),
    ],
)
def test_nothing_is_installed_for_a_server_elsewhere(
    tmp_path: Path, machine: pytest.MonkeyPatch, tracking: dict[str, str], place: dict[str, str]
) -> None:
    program = declared(tmp_path, machine, tracking)
    assert names(program, IMAGE) == ["slipway-trainer"]
    assert program.of(READY) == []
    expected = {"kind": tracking["kind"], "experiment": "mine/mnist-gloo", **place}
    assert program.one(JOB).inputs["tracking"] == expected


def test_its_volume_has_the_stacks_class(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    outputs = {"slipway:outputs": {"storageClass": "fast"}}
    program = declared(tmp_path, machine, {"kind": "mlflow", "size": "5Gi"}, **outputs)
    spec = program.one(CLAIM, "slipway-tracking").inputs["manifest"]["spec"]
    assert spec == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }


def test_a_preview_says_down_deletes_the_claim(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    with machine.context() as patch:
        patch.setattr(pulumi.log, "info", lambda text, *_, **__: messages.append(text))
        choice = Choice("work", "https://a.example:6443", "config", "a kubeconfig")
        patch.setattr(existing, "choose", lambda *_: choice)
        patch.setattr(existing, "look", lambda *_: Found(default_class=True, nodes=1))
        patch.setattr(existing, "stack", lambda: "slipway/mine")
        images = {"trainer": "example.org/trainer:1", "mlflow": "example.org/mlflow:1"}
        operator = {"trainingOperator": "example.org/op:1", "tcpWait": "example.org/wait:1"}
        cluster = {"kind": "kubeconfig", "context": "work", "images": {**images, **operator}}
        program = declared(tmp_path, patch, {"kind": "mlflow"}, **{"slipway:cluster": cluster})
    assert program.of(IMAGE) == [], "it is there already"
    server = program.one(DEPLOYMENT, "mlflow").inputs["spec"]["template"]["spec"]
    assert server["containers"][0]["image"] == "example.org/mlflow:1"
    assert any("slipway-tracking" in each and "`make down` deletes" in each for each in messages)
