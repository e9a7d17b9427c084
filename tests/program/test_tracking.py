"""The tracking server that a stack declares, and what the pods of each run get of it."""

from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from clusters.kubeconfig.found import Found
from tests.program.declared import Declare, Program, secret

JOB, CLAIM, READY = (
    f"slipway:{each}" for each in ("jobs:PyTorchJob", "jobs:Claim", "infra:TrackingReady")
)
IMAGE, DEPLOYMENT = "slipway:images:Image", "kubernetes:apps/v1:Deployment"
ELSEWHERE, SECRET = "https://m.example", "kubernetes:core/v1:Secret"


@pytest.fixture
def tracked(declared: Declare) -> Declare:
    """Return what runs the program on these settings of `slipway:tracking`."""

    def run(tracking: Any = None, **others: Any) -> Program:
        settings = {} if tracking is None else {"tracking": tracking}
        return declared("mine", jobs={"mnist-gloo": {"cpu": "100m"}}, **settings, **others)

    return run


def names(program: Program, type_: str) -> list[str]:
    return sorted(each.name for each in program.of(type_))


def test_without_tracking_nothing_is_declared(tracked: Declare) -> None:
    """Without `slipway:tracking` nothing is built and nothing declared."""
    program = tracked()
    assert names(program, IMAGE) == ["slipway-trainer"]
    assert names(program, CLAIM) == ["slipway-kept"]
    assert program.of(READY) == []
    assert "tracking" not in program.one(JOB).inputs


def test_jobs_wait_for_the_tracking_server(tracked: Declare) -> None:
    """Jobs start when the tracking server answers."""
    program = tracked({"kind": "mlflow"})
    job, ready = program.one(JOB), program.one(READY)
    assert names(program, IMAGE) == ["slipway-mlflow", "slipway-trainer"]
    assert ready.urn in program.needs(job)
    assert ready.inputs["deployments"] == ["mlflow"]
    for needed in (program.one(DEPLOYMENT, "mlflow"), program.one(CLAIM, "slipway-tracking")):
        assert needed.urn in program.needs(ready)
    place = {"url": "http://mlflow:5000", "address": "http://localhost:5000"}
    expected = {"kind": "mlflow", "experiment": "mine/mnist-gloo", **place}
    assert job.inputs["tracking"] == expected


def test_postgresqls_password_is_made_once(tracked: Declare) -> None:
    """PostgreSQL's password is made once, and encrypted in the state."""
    program = tracked({"kind": "mlflow", "database": "postgresql"})
    assert names(program, IMAGE) == ["slipway-mlflow", "slipway-postgres", "slipway-trainer"]
    password = program.one(SECRET, "mlflow-database")
    assert password.inputs["data"] == secret(password.inputs["data"]["value"])
    assert password.ignored == ("data",)
    again = tracked({"kind": "mlflow", "database": "postgresql"})
    assert again.one(SECRET, "mlflow-database").inputs["data"] != password.inputs["data"]
    ready = program.one(READY)
    assert ready.inputs["deployments"] == ["mlflow-database", "mlflow"]
    assert again.one(READY).inputs["rollout"] == ready.inputs["rollout"], "it would be waited for"


@pytest.mark.parametrize(
    ("tracking", "place"),
    [
        ({"kind": "mlflow", "url": f"{ELSEWHERE}/"}, {"url": ELSEWHERE, "address": ELSEWHERE}),
        ({"kind": "wandb"}, {}),
        ({"kind": "tensorboard"}, {}),
    ],
)
def test_nothing_is_installed_for_a_server_elsewhere(
    tracked: Declare, tracking: dict[str, str], place: dict[str, str]
) -> None:
    program = tracked(tracking)
    assert names(program, IMAGE) == ["slipway-trainer"]
    assert program.of(READY) == []
    expected = {"kind": tracking["kind"], "experiment": "mine/mnist-gloo", **place}
    assert program.one(JOB).inputs["tracking"] == expected


def test_its_volume_has_the_stacks_class(tracked: Declare) -> None:
    program = tracked({"kind": "mlflow", "size": "5Gi"}, outputs={"storageClass": "fast"})
    spec = program.one(CLAIM, "slipway-tracking").inputs["manifest"]["spec"]
    assert spec == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }


def test_a_preview_says_down_deletes_the_claim(
    tracked: Declare, there_is: Callable[[Found], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: messages.append(text))
    there_is(Found(default_class=True, nodes=1))
    images = {"trainer": "example.org/trainer:1", "mlflow": "example.org/mlflow:1"}
    operator = {"trainingOperator": "example.org/op:1", "tcpWait": "example.org/wait:1"}
    cluster = {"kind": "kubeconfig", "context": "work", "images": {**images, **operator}}
    program = tracked({"kind": "mlflow"}, cluster=cluster)
    assert program.of(IMAGE) == [], "it is there already"
    server = program.one(DEPLOYMENT, "mlflow").inputs["spec"]["template"]["spec"]
    assert server["containers"][0]["image"] == "example.org/mlflow:1"
    assert any("slipway-tracking" in each and "`make down` deletes" in each for each in messages)
