"""How pods know where their run is tracked, and that this is no part of what it trains."""

import copy
import json
from typing import Any

from core.handler import Change
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import manifest
from jobs.model.tracked import of_job, tracked, variables
from jobs.run.changes import is_in_place
from jobs.run.submit import spec_hash

PLACE = {"kind": "mlflow", "url": "http://mlflow:5000", "address": "http://localhost:5000"}


def rendered() -> dict[str, Any]:
    job = TrainingJob(name="mine", image="example.org/own:1", command=("run",), workers=2)
    return manifest(job, namespace="n", service_account="s", trainer_image="i")


def test_every_pod_knows_the_server_the_experiment_and_what_trains() -> None:
    facts = {"revision": "abc-dirty", "settings": {"epochs": 2}}
    found = tracked(rendered(), variables(of_job(PLACE, "dev", "mine"), facts))
    for replicas in found["spec"]["pytorchReplicaSpecs"].values():
        [container] = replicas["template"]["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert env["SLIPWAY_TRACKING"] == "mlflow"
        assert env["SLIPWAY_TRACKING_URL"] == "http://mlflow:5000"
        assert env["SLIPWAY_TRACKING_ADDRESS"] == "http://localhost:5000"
        assert env["SLIPWAY_TRACKING_EXPERIMENT"] == "dev/mine"
        assert json.loads(env["SLIPWAY_TRACKING_FACTS"]) == facts


def test_a_run_that_is_not_tracked_is_as_ever() -> None:
    job = rendered()
    assert variables(of_job(None, "dev", "mine"), {"revision": "abc"}) == {}
    assert tracked(job, {}) == job


def test_a_preview_has_no_facts_which_may_not_be_known_yet() -> None:
    assert variables({"kind": "wandb", "experiment": "dev/mine"}) == {
        "SLIPWAY_TRACKING": "wandb",
        "SLIPWAY_TRACKING_EXPERIMENT": "dev/mine",
    }


def test_where_it_is_tracked_is_no_part_of_what_is_trained() -> None:
    job = rendered()
    before = copy.deepcopy(job)
    tracked(job, variables(of_job(PLACE, "dev", "mine")))
    assert job == before
    assert spec_hash(job) == spec_hash(before)
    assert is_in_place(Change("tracking", "add"))
    assert is_in_place(Change("tracking.url", "update"))
