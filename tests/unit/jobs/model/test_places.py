"""Pods know where files and checkpoints are kept and where the run is tracked."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.manifest import checkpoint_key, manifest
from jobs.model.parts import Checkpoint, Drill, Elastic, Limits, OnFailure
from jobs.model.places import VOLUME_URL
from jobs.model.submission import Submission
from tests.unit import jobs_declared
from tests.unit.jobs_declared import rendered, submitted, variables

SERVER = {"kind": "mlflow", "url": "http://mlflow:5000", "address": "http://localhost:5000"}
TRACKING = {**SERVER, "experiment": "dev/mine"}
_PERIOD = "terminationGracePeriodSeconds"
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
        ({"workers": 3, "elastic": Elastic(min_replicas=2)}, ["Worker"]),
        ({"outputs": "abfs://results/mine"}, []),
    ],
)
def test_each_pod_that_may_be_rank_0_keeps_files_without_outputs_of_the_jobs_own(
    fields: dict[str, Any], roles: list[str]
) -> None:
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
    assert [pod[_PERIOD] for pod in found.values()] == [60, 10]
    store = pods(submission("abfs://artifacts@account.dfs.core.windows.net/slipway"))
    assert keepers(store) == ["Master"]
    assert "slipway-kept" not in str(store["Master"]["volumes"])


_DRILL = Drill(rank=1, step=100, within=60)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"keep": ("*.pt", "runs/$(HOME)/**")}, "KEEP", '["*.pt", "runs/$$(HOME)/**"]'),
        ({"outputs_every": 60}, "OUTPUTS_EVERY", "60"),
        ({"on_failure": OnFailure(hold=90)}, "HOLD", "90"),
        ({"debug": 1}, "DEBUG", "1"),
        ({"drill": _DRILL, "backoff_limit": 9}, "DRILL", "1 100"),
    ],
)
def test_every_pod_knows_what_to_keep_hold_debug_and_drill(
    fields: dict[str, Any], name: str, value: str
) -> None:
    declared = submission(VOLUME_URL, command=LAUNCHED, **fields)
    for pod in pods(declared).values():
        assert variables(pod)[f"SLIPWAY_{name}"] == value
    assert checkpoint_key(declared) == checkpoint_key(submission(command=LAUNCHED))


def test_every_pod_prints_what_a_drill_searches_for_and_the_gate_judges_how_long_it_took() -> None:
    plain = submission(command=LAUNCHED, metrics={"step": r"step (\d+)"}, backoff_limit=9)
    drilled, longer = (
        replace(plain, job=replace(plain.job, drill=each))
        for each in (_DRILL, replace(_DRILL, within=90))
    )
    assert all("SLIPWAY_METRICS" in variables(pod) for pod in pods(drilled).values())
    assert "SLIPWAY_METRICS" not in variables(pods(plain)["Worker"])
    assert longer.digest() == drilled.digest()


def test_a_pod_that_was_held_is_not_started_again_nor_removed_before() -> None:
    own: dict[str, Any] = {"clean_pod_policy": "Running", "backoff_limit": 0, "timeout": 600}
    held = submission(command=LAUNCHED, on_failure=OnFailure(hold=90), **own)
    spec = manifest(held)["spec"]
    assert [each["restartPolicy"] for each in spec["pytorchReplicaSpecs"].values()] == ["Never"] * 2
    policy = {"cleanPodPolicy": "None", "backoffLimit": 1, "activeDeadlineSeconds": 810}
    assert spec["runPolicy"] == policy


def test_every_pod_knows_the_server_the_experiment_and_what_trains() -> None:
    facts = {"revision": "abc-dirty", "settings": {"epochs": 2}}
    expected = {f"_{name.upper()}": value for name, value in TRACKING.items() if name != "kind"}
    for pod in pods(submission(tracking=TRACKING), facts).values():
        found = tracking_of(pod)
        assert json.loads(found.pop("_FACTS")) == facts
        assert found == {"": "mlflow", **expected}
    assert pods(submission(), facts) == pods(submission()), "one that is not tracked"
    without_server = {"kind": "wandb", "experiment": "dev/mine"}
    found = tracking_of(pods(submission(tracking=without_server))["Master"])
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


SAVED = replace(CATALOG["mnist-gloo"], checkpoint=Checkpoint(every="500 steps"))


def saving(
    job: TrainingJob = SAVED, place: str | None = VOLUME_URL, image: Any = "trainer:1", **given: Any
) -> list[Any]:
    """Return the pods of the Master and of the Workers of a job with checkpoints."""
    document = rendered(job, image, place=place, **given)
    return [*jobs_declared.pods(document).values()]


def saved(job: TrainingJob = SAVED, *of: Any, **given: Any) -> dict[str, Any]:
    """Return the variables of the Master for its checkpoints, by the end of their name."""
    found, name = variables(saving(job, *of, **given)[0]), "SLIPWAY_CHECKPOINT_"
    return {k.removeprefix(name): v for k, v in found.items() if k.startswith(name)}


DIRECTORY = saved()["DIR"]


def test_every_pod_finds_the_jobs_checkpoints_on_the_stacks_volume() -> None:
    for pod in saving():
        assert pod["volumes"][-1]["persistentVolumeClaim"] == {"claimName": "slipway-kept"}
        assert str(pod["volumes"]).count("slipway-kept") == 2, "one volume, by its name and claim"
        assert pod["containers"][0]["volumeMounts"][-1]["mountPath"] == "/opt/kept"
    times = [pod[_PERIOD] for pod in saving()]
    assert times == [60, 30], "rank 0 copies its other files as well"
    assert DIRECTORY.startswith("/opt/kept/checkpoints/mnist-gloo/")
    assert saved().items() >= {"EVERY": "500 steps", "KEEP": "2"}.items()


@pytest.mark.parametrize(
    ("job", "place"), [(SAVED, None), (replace(SAVED, checkpoint=None), VOLUME_URL)]
)
def test_where_nothing_is_kept_nothing_is_written(job: TrainingJob, place: str | None) -> None:
    assert "SLIPWAY_CHECKPOINT" not in str(saving(job, place))
    assert submitted(job, place=place).digest() == submitted(SAVED, place=VOLUME_URL).digest()


@pytest.mark.parametrize(
    ("url", "place"), [(None, "abfs://kept@a/slipway"), ("s3://bucket/mine/", VOLUME_URL)]
)
def test_a_store_has_one_folder_and_each_pod_its_own(url: str | None, place: str) -> None:
    job = replace(SAVED, checkpoint=Checkpoint(every="500 steps", url=url))
    folder = DIRECTORY.removeprefix("/opt/kept")
    assert saved(job, place)["DIR"] == f"/work{folder}"
    assert saved(job, place)["URL"] == f"{(url or place).rstrip('/')}{folder}"
    assert [pod[_PERIOD] for pod in saving(job, place)] == [60, 60], "time to copy the last one"
    assert "slipway-kept" not in str(saving(job, place)[1]["volumes"])


def test_two_stacks_at_one_url_have_folders_of_their_own_with_keys_of_the_same_name() -> None:
    """Each removes what other declarations of its job have left, so none may see another's."""
    job = replace(SAVED, checkpoint=Checkpoint(every="500 steps", url="s3://bucket/mine"))
    *_, name, key = saved(job)["URL"].split("/")
    for stack in ("slipway/dev", "slipway/prod"):
        place = f"s3://bucket/mine/checkpoints/{stack}/{name}/{key}"
        assert saved(job, stack=stack)["URL"] == place
    for own in (VOLUME_URL, "abfs://kept@account/slipway"):
        assert saved(SAVED, own, stack="slipway/dev") == saved(SAVED, own), "it is the stack's own"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"workers": 1}, True),
        ({"limits": Limits(memory="3Gi")}, True),
        ({"retries": 2}, True),
        ({"checkpoint": Checkpoint(every="90s", keep=5)}, True),
        ({"labels": {"team": "vision"}}, True),
        ({"learning_rate": 0.02}, False),
        ({"seed": 2}, False),
        ({"args": ("--limit-train", "10")}, False),
        ({"env": {"A": "1"}}, False),
    ],
)
def test_the_directory_depends_on_the_programs_settings(change: dict[str, Any], same: bool) -> None:
    assert (saved(replace(SAVED, **change))["DIR"] == DIRECTORY) is same


def test_the_directory_depends_on_the_image() -> None:
    assert saved(image="trainer:2")["DIR"] != DIRECTORY
    unknown = saved(image=UNKNOWN)["DIR"]
    assert unknown == "/opt/kept/checkpoints/mnist-gloo/<known later>"
