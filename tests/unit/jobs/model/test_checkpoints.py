"""Checkpoints belong to a program with its settings, and how often they are written to none."""

from dataclasses import replace
from typing import Any

import pytest

from core.handler import UNKNOWN
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.model.parts import Checkpoint, Limits
from jobs.model.places import VOLUME_URL
from tests.unit import jobs_declared
from tests.unit.jobs_declared import rendered, submitted

MNIST = replace(CATALOG["mnist-gloo"], checkpoint=Checkpoint(every="500 steps"))


def pods(
    job: TrainingJob, place: str | None = VOLUME_URL, image: Any = "trainer:1", **given: Any
) -> list[Any]:
    """Return the pods of the Master and of the Workers."""
    return [*jobs_declared.pods(rendered(job, image, place=place, **given)).values()]


def variables(job: TrainingJob, *of: Any, **given: Any) -> dict[str, Any]:
    """Return the variables of the Master."""
    return jobs_declared.variables(pods(job, *of, **given)[0])


DIRECTORY = variables(MNIST)["SLIPWAY_CHECKPOINT_DIR"]


def test_every_pod_finds_the_jobs_directory_on_the_stacks_volume() -> None:
    for pod in pods(MNIST):
        assert pod["volumes"][-1]["persistentVolumeClaim"] == {"claimName": "slipway-kept"}
        assert str(pod["volumes"]).count("slipway-kept") == 2, "one volume, by its name and claim"
        assert pod["containers"][0]["volumeMounts"][-1]["mountPath"] == "/opt/kept"
    times = [pod["terminationGracePeriodSeconds"] for pod in pods(MNIST)]
    assert times == [60, 30], "rank 0 copies its other files as well"
    assert DIRECTORY.startswith("/opt/kept/checkpoints/mnist-gloo/")
    written = {"SLIPWAY_CHECKPOINT_EVERY": "500 steps", "SLIPWAY_CHECKPOINT_KEEP": "2"}
    assert variables(MNIST).items() >= written.items()


@pytest.mark.parametrize(
    ("job", "place"), [(MNIST, None), (replace(MNIST, checkpoint=None), VOLUME_URL)]
)
def test_where_nothing_is_kept_nothing_is_written(job: TrainingJob, place: str | None) -> None:
    assert "SLIPWAY_CHECKPOINT" not in str(pods(job, place))
    assert submitted(job, place=place).digest() == submitted(MNIST, place=VOLUME_URL).digest()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        (None, "abfs://kept@a/slipway"),
        ("s3://bucket/mine/", VOLUME_URL),
        ("s3://bucket/mine", None),
    ],
)
def test_a_store_has_one_folder_and_each_pod_its_own(url: str | None, place: str | None) -> None:
    job = replace(MNIST, checkpoint=Checkpoint(every="500 steps", url=url))
    found = variables(job, place)
    folder = DIRECTORY.removeprefix("/opt/kept")
    assert found["SLIPWAY_CHECKPOINT_DIR"] == f"/work{folder}"
    assert found["SLIPWAY_CHECKPOINT_URL"] == f"{(url or place or '').rstrip('/')}{folder}"
    for pod in pods(job, place):
        assert pod["terminationGracePeriodSeconds"] == 60, "time to copy the last one"
    _, worker = pods(job, place)
    assert "slipway-kept" not in str(worker["volumes"])


def test_two_stacks_at_one_url_have_folders_of_their_own_with_keys_of_the_same_name() -> None:
    """Each removes what other declarations of its job have left, so none may see another's."""
    job = replace(MNIST, checkpoint=Checkpoint(every="500 steps", url="s3://bucket/mine"))
    one, other = (variables(job, stack=f"slipway/{name}") for name in ("dev", "prod"))
    before = variables(job)["SLIPWAY_CHECKPOINT_URL"]
    *_, name, key = before.split("/")
    place = "s3://bucket/mine/checkpoints"
    assert one["SLIPWAY_CHECKPOINT_URL"] == f"{place}/slipway/dev/{name}/{key}"
    assert other["SLIPWAY_CHECKPOINT_URL"] == f"{place}/slipway/prod/{name}/{key}"
    assert one["SLIPWAY_CHECKPOINT_URL_BEFORE"] == before, "found by a job that resumes"


@pytest.mark.parametrize("place", [VOLUME_URL, "abfs://kept@account/slipway"])
def test_the_stacks_own_place_needs_no_name_of_it(place: str) -> None:
    assert variables(MNIST, place, stack="slipway/dev") == variables(MNIST, place)


def test_how_often_files_are_copied_is_no_part_of_what_is_trained() -> None:
    job = TrainingJob(name="mine", image="example.org/own:1", command=("x",))
    often = replace(job, outputs_every=60)
    assert submitted(often).digest() == submitted(job).digest()
    for pod in pods(often, None):
        variable = {"name": "SLIPWAY_OUTPUTS_EVERY", "value": "60"}
        assert variable in pod["containers"][0]["env"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"workers": 1}, True),
        ({"memory": "2Gi"}, True),
        ({"limits": Limits(memory="3Gi")}, True),
        ({"timeout": 60}, True),
        ({"retries": 2}, True),
        ({"checkpoint": Checkpoint(every="90s", keep=5)}, True),
        ({"labels": {"team": "vision"}}, True),
        ({"node_selector": {"disk": "fast"}}, True),
        ({"learning_rate": 0.02}, False),
        ({"seed": 2}, False),
        ({"args": ("--limit-train", "10")}, False),
        ({"env": {"A": "1"}}, False),
    ],
)
def test_the_directory_depends_on_the_programs_settings(change: dict[str, Any], same: bool) -> None:
    changed = variables(replace(MNIST, **change))["SLIPWAY_CHECKPOINT_DIR"]
    assert (changed == DIRECTORY) is same


def test_the_directory_depends_on_the_image() -> None:
    assert variables(MNIST, image="trainer:2")["SLIPWAY_CHECKPOINT_DIR"] != DIRECTORY
    unknown = variables(MNIST, image=UNKNOWN)["SLIPWAY_CHECKPOINT_DIR"]
    assert unknown == "/opt/kept/checkpoints/mnist-gloo/<known later>"


@pytest.mark.parametrize(
    ("written", "read"),
    [("500 steps", "500 steps"), ("1 step", "1 steps"), ("10m", "600 s"), ("600 s", "600 s")],
)
def test_an_interval_is_one_of_steps_or_of_time(written: str, read: str) -> None:
    assert Checkpoint(every=written).every == read
