"""Which pods of a job keep its files, how they know where it is tracked, and what it trains."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jobs.model.job import TrainingJob
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.parts import Drill, Elastic, OnFailure
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from tests.unit import jobs_declared
from tests.unit.jobs_declared import variables

SERVER = {"kind": "mlflow", "url": "http://mlflow:5000", "address": "http://localhost:5000"}
TRACKING = {**SERVER, "experiment": "dev/mine"}
LAUNCHED = ("python3", "-m", "slipway_trainer.launch", "--", "train.py")


def submission(
    place: str | None = None, tracking: Mapping[str, str] | None = None, **fields: Any
) -> Submission:
    job = TrainingJob(name="mine", image="example.org/own:1", **{"command": ("run",), **fields})
    return Submission(job=job, image=job.image, place=place, tracking=tracking)


def pods(submitted: Submission, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return jobs_declared.pods(manifest(submitted, facts=facts))


def tracking_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables for tracking, by the end of their name."""
    name = "SLIPWAY_TRACKING"
    return {k.removeprefix(name): v for k, v in variables(pod).items() if k.startswith(name)}


def keepers(found: Mapping[str, Any]) -> list[str]:
    """Return the roles whose pods are told where to keep files."""
    return [role for role, pod in found.items() if "SLIPWAY_KEPT" in variables(pod)]


@pytest.mark.parametrize(
    ("fields", "roles"),
    [
        ({"workers": 2}, ["Master"]),
        ({"workers": 0}, ["Master"]),
        ({"workers": 3, "elastic": Elastic(min_replicas=2)}, ["Worker"]),
    ],
)
def test_whoever_may_be_rank_0_keeps_its_files(fields: dict[str, Any], roles: list[str]) -> None:
    assert keepers(pods(submission(VOLUME_URL, **fields))) == roles
    assert keepers(pods(submission(**fields))) == []


def test_it_has_the_volume_where_the_url_leads_and_time_to_copy() -> None:
    found = pods(submission(VOLUME_URL))
    master = found["Master"]
    assert variables(master)["SLIPWAY_KEPT"] == "file:///opt/kept/outputs/mine"
    claim = {"claimName": "slipway-kept"}
    assert {"name": "slipway-kept", "persistentVolumeClaim": claim} in master["volumes"]
    mounts = master["containers"][0]["volumeMounts"]
    assert {"name": "slipway-kept", "mountPath": "/opt/kept"} in mounts
    assert master["terminationGracePeriodSeconds"] == 60
    assert found["Worker"]["terminationGracePeriodSeconds"] == 10


def test_every_pod_knows_what_to_keep_for_which_nothing_is_trained_again() -> None:
    own = submission(VOLUME_URL, keep=("*.pt", "runs/$(HOME)/**"))
    for pod in pods(own).values():
        assert variables(pod)["SLIPWAY_KEEP"] == '["*.pt", "runs/$$(HOME)/**"]'
    assert own.digest() == submission(VOLUME_URL).digest()


def test_every_pod_knows_how_long_to_stay_and_which_rank_to_debug() -> None:
    plain, debugged = submission(command=LAUNCHED), submission(command=LAUNCHED, debug=1)
    held = submission(command=LAUNCHED, debug=1, on_failure=OnFailure(hold=90))
    for pod in pods(held).values():
        assert variables(pod)["SLIPWAY_HOLD"] == "90"
        assert variables(pod)["SLIPWAY_DEBUG"] == "1"
    assert held.digest() == debugged.digest(), "nothing is trained again to hold a pod"
    assert debugged.digest() != plain.digest(), "who debugs it may change what it does"
    assert checkpoint_key(held) == checkpoint_key(plain)


def test_every_pod_knows_the_drill_and_prints_what_its_rank_is_searched_for() -> None:
    drill = Drill(rank=1, step=100, within=60)
    plain = submission(command=LAUNCHED, metrics={"step": r"step (\d+)"}, backoff_limit=9)
    drilled = replace(plain, job=replace(plain.job, drill=drill))
    for pod in pods(drilled).values():
        assert variables(pod)["SLIPWAY_DRILL"] == "1 100"
        assert "SLIPWAY_METRICS" in variables(pod)
    assert "SLIPWAY_METRICS" not in variables(pods(plain)["Worker"])
    assert drilled.digest() != plain.digest()
    longer = replace(drilled, job=replace(drilled.job, drill=replace(drill, within=90)))
    assert longer.digest() == drilled.digest(), "the gate alone judges how long it took"
    assert checkpoint_key(drilled) == checkpoint_key(plain)


def test_a_pod_that_was_held_is_not_started_again_nor_removed_before() -> None:
    own: dict[str, Any] = {"clean_pod_policy": "Running", "backoff_limit": 0, "timeout": 600}
    held = submission(command=LAUNCHED, on_failure=OnFailure(hold=90), **own)
    spec = manifest(held)["spec"]
    assert [each["restartPolicy"] for each in spec["pytorchReplicaSpecs"].values()] == ["Never"] * 2
    policy = {"cleanPodPolicy": "None", "backoffLimit": 1, "activeDeadlineSeconds": 810}
    assert spec["runPolicy"] == policy


def test_a_store_of_a_cloud_takes_no_volume() -> None:
    found = pods(submission("abfs://artifacts@account.dfs.core.windows.net/slipway"))
    assert keepers(found) == ["Master"]
    assert "slipway-kept" not in str(found["Master"]["volumes"])


def test_outputs_of_the_jobs_own_are_kept_nowhere_else() -> None:
    assert keepers(pods(submission(VOLUME_URL, outputs="abfs://results/mine"))) == []


def test_every_pod_knows_the_server_the_experiment_and_what_trains() -> None:
    facts = {"revision": "abc-dirty", "settings": {"epochs": 2}}
    told = {
        "": "mlflow",
        "_URL": "http://mlflow:5000",
        "_ADDRESS": "http://localhost:5000",
        "_EXPERIMENT": "dev/mine",
    }
    for pod in pods(submission(tracking=TRACKING), facts).values():
        found = tracking_of(pod)
        assert json.loads(found.pop("_FACTS")) == facts
        assert found == told
    assert pods(submission(), facts) == pods(submission()), "one that is not tracked"


def test_unknown_tracking_values_are_left_out_of_the_environment() -> None:
    tracking = {"kind": "wandb", "experiment": "dev/mine"}
    found = tracking_of(pods(submission(tracking=tracking))["Master"])
    assert found == {"": "wandb", "_EXPERIMENT": "dev/mine"}


def test_what_is_looked_for_in_the_output_is_known_to_rank_0_as_it_stands_in_the_file() -> None:
    """Kubernetes would replace $(RANK), and takes $$ for $."""
    metrics = {"accuracy": r"acc$$ ($(RANK)|[0-9.]+)\d'\"é"}
    found = pods(submission(metrics=metrics))
    assert "SLIPWAY_METRICS" not in variables(found["Worker"])
    value = variables(found["Master"])["SLIPWAY_METRICS"]
    assert "$(" not in value.replace("$$", "")
    assert json.loads(value.replace("$$", "$")) == metrics
    elastic = pods(submission(metrics=metrics, workers=3, elastic=Elastic(min_replicas=2)))
    assert variables(elastic["Worker"])["SLIPWAY_METRICS"] == value
    assert manifest(submission(metrics={})) == manifest(submission())
    assert submission(metrics=metrics).digest() == submission().digest()
