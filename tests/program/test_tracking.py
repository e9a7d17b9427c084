"""The tracking server that a stack declares, and what the pods of each run get of it."""

from collections.abc import Callable
from typing import Any

import pytest

from clusters.kubeconfig.found import Found
from tests.program.declared import Declare, Program, secret

ELSEWHERE = "https://m.example"


@pytest.fixture
def tracked(declared: Declare) -> Declare:
    """Run the program on these settings of `slipway:tracking`."""

    def run(**settings: Any) -> Program:
        return declared("mine", jobs={"mnist-gloo": {"cpu": "100m"}}, **settings)

    return run


def test_jobs_wait_for_the_tracking_server(tracked: Declare) -> None:
    """Jobs start when the tracking server answers; its volume has the stack's class, and stays."""
    tracking = {"kind": "mlflow", "size": "5Gi"}
    program = tracked(tracking=tracking, outputs={"storageClass": "fast"})
    job, ready = program.one("PyTorchJob"), program.one("TrackingReady")
    claim = program.one("Claim", "slipway-tracking")
    assert program.names("Image") == ["slipway-mlflow", "slipway-trainer"]
    assert ready.urn in program.needs(job)
    assert ready.inputs["deployments"] == ["mlflow"]
    assert {program.one("Deployment", "mlflow").urn, claim.urn} <= program.needs(ready)
    place = {"url": "http://mlflow:5000", "address": "http://localhost:5000"}
    expected = {"kind": "mlflow", "experiment": "mine/mnist-gloo", **place}
    assert job.inputs["tracking"] == expected
    assert claim.inputs["manifest"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    assert claim.ignored == ("manifest.spec.storageClassName",)


def test_postgresqls_password_is_made_once(tracked: Declare) -> None:
    """PostgreSQL's password is made once, and encrypted in the state."""
    settings = {"kind": "mlflow", "database": "postgresql"}
    program, again = tracked(tracking=settings), tracked(tracking=settings)
    assert program.names("Image") == ["slipway-mlflow", "slipway-postgres", "slipway-trainer"]
    assert {"slipway-tracking", "slipway-tracking-database"} <= {*program.names("Claim")}
    password = program.one("Secret", "mlflow-database")
    assert password.inputs["data"] == secret(password.inputs["data"]["value"])
    assert password.ignored == ("data",)
    assert again.one("Secret", "mlflow-database").inputs["data"] != password.inputs["data"]
    ready = program.one("TrackingReady").inputs
    assert ready["deployments"] == ["mlflow-database", "mlflow"]
    assert again.one("TrackingReady").inputs["rollout"] == ready["rollout"], (
        "it would be waited for"
    )


@pytest.mark.parametrize(
    ("tracking", "place"),
    [
        ({"kind": "mlflow", "url": f"{ELSEWHERE}/"}, {"url": ELSEWHERE, "address": ELSEWHERE}),
        ({"kind": "wandb"}, {}),
        ({"kind": "tensorboard"}, {}),
        (None, {}),
    ],
    ids=["a server elsewhere", "wandb", "tensorboard", "no tracking"],
)
def test_nothing_is_installed_for_a_server_elsewhere_or_none(
    tracked: Declare, tracking: dict[str, str] | None, place: dict[str, str]
) -> None:
    program = tracked(**({} if tracking is None else {"tracking": tracking}))
    assert program.names("Image") == ["slipway-trainer"]
    assert program.names("Claim") == ["slipway-kept"]
    assert program.of("TrackingReady") == []
    told = program.one("PyTorchJob").inputs.get("tracking")
    if tracking is None:
        assert told is None
    else:
        assert told == {"kind": tracking["kind"], "experiment": "mine/mnist-gloo", **place}


def test_a_preview_says_down_deletes_the_claim(
    tracked: Declare, there_is: Callable[[Found], None], said: list[str]
) -> None:
    there_is(Found(default_class=True, nodes=1))
    names = ("trainer", "mlflow", "trainingOperator", "tcpWait")
    images = {name: f"example.org/{name}:1" for name in names}
    cluster = {"kind": "kubeconfig", "context": "work", "images": images}
    program = tracked(tracking={"kind": "mlflow"}, cluster=cluster)
    assert program.of("Image") == [], "it is there already"
    server = program.one("Deployment", "mlflow").inputs["spec"]["template"]["spec"]
    assert server["containers"][0]["image"] == "example.org/mlflow:1"
    assert any("slipway-tracking" in each and "`make down` deletes" in each for each in said)
