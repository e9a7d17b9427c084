"""A declaration is a job, or it is told everything that is wrong with it."""

from typing import Any

import pytest

from jobs.catalog import CATALOG
from jobs.declaration import cluster_problems, declare
from jobs.spec import TrainingJob

KEY = "slipway:jobs.it"


def problems(name: str, declared: object) -> dict[str, str]:
    """Return what is wrong, by key below the job's own; empty for the job itself."""
    found = declare(name, declared, KEY)
    assert isinstance(found, list), found
    assert len({problem.key for problem in found}) == len(found), found
    return {problem.key.removeprefix(KEY).removeprefix("."): problem.text for problem in found}


def job(name: str, declared: object) -> TrainingJob:
    declared_job = declare(name, declared, KEY)
    assert isinstance(declared_job, TrainingJob), declared_job
    return declared_job


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_entry_of_the_catalogue_is_taken_as_it_is(nothing: object) -> None:
    assert job("mnist-gloo", nothing) == CATALOG["mnist-gloo"]


def test_fields_override_those_of_the_catalogue() -> None:
    changed = job("mnist-gloo", {"epochs": 2, "workers": 1, "learningRate": "0.1", "cpu": 2})
    assert (changed.epochs, changed.workers, changed.learning_rate) == (2, 1, 0.1)
    assert changed.cpu == "2"
    assert changed.module == "mnist"


def test_a_job_of_ones_own_has_an_image_and_a_command() -> None:
    mine = job("mine", {"image": "example.org/mine:1", "command": ["python3", "train.py"]})
    assert mine.command == ("python3", "train.py")


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        "mnist-gloo",
        {
            "workers": 0,
            "epochs": "three",
            "batchSize": 1.5,
            "learningRate": -1,
            "batchsize": 3,
            "cpu": True,
            "memory": "12",
            "backend": "mpi",
            "restartPolicy": "Always",
            "env": {"RANK": "1", "a b": "c"},
        },
    )
    assert found.keys() == {
        "workers", "epochs", "batchSize", "learningRate", "batchsize", "cpu", "memory",
        "backend", "restartPolicy", "env.RANK", "env.a b",
    }  # fmt: skip
    assert found["workers"] == "0 is not allowed; it takes a whole number from 1 to 999"
    assert 'did you mean "batchSize"?' in found["batchsize"]
    assert found["backend"] == '"mpi" is not allowed; it takes one of gloo, nccl'
    assert "512Mi" in found["memory"]
    assert "training operator" in found["env.RANK"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workers", -1),
        ("workers", True),
        ("workers", 2.5),
        ("workers", "3"),
        ("epochs", 0),
        ("timeout", 0),
        ("learningRate", 0),
        ("learningRate", float("inf")),
        ("cpu", "0m"),
        ("cpu", 0),
        ("memory", "0Gi"),
        ("memory", 5),
        ("args", "not a list"),
    ],
)
def test_a_value_out_of_range_or_of_another_type_is_refused(field: str, value: Any) -> None:
    found = problems("mnist-gloo", {field: value})
    assert field in found


@pytest.mark.parametrize(
    "name", ["Mine", "1st", "my_job", "my.job", "-mine", "mine-", "a" * 41, "", "ä"]
)
def test_a_name_that_is_no_dns_label_is_refused(name: str) -> None:
    found = problems(name, {"image": "example.org/mine:1", "command": ["true"]})
    assert "DNS label" in found[""]


def test_a_misspelt_entry_is_told_the_right_one() -> None:
    found = problems("mnist-glo", {"epochs": 2})
    assert found.keys() == {""}
    assert 'did you mean "mnist-gloo"?' in found[""]


@pytest.mark.parametrize("key", ["script", "build", "retries", "name", "module"])
def test_what_is_not_built_is_an_unknown_key(key: str) -> None:
    assert key in problems("mnist-gloo", {key: "x"})


def test_a_command_needs_an_image_to_run_in() -> None:
    assert problems("mine", {"command": ["true"]}).keys() == {"image"}


def test_a_field_of_the_catalogues_programs_means_nothing_to_ones_own() -> None:
    declared = {"image": "example.org/mine:1", "command": ["true"], "epochs": 2}
    assert problems("mine", declared).keys() == {"epochs"}


def test_an_entry_of_the_catalogue_keeps_its_own_program() -> None:
    assert problems("mnist-gloo", {"command": ["true"]}).keys() == {"command"}


@pytest.mark.parametrize("declared", [[], "text", 3])
def test_a_declaration_is_a_map(declared: object) -> None:
    assert problems("mnist-gloo", declared).keys() == {""}


def test_nccl_is_refused_where_there_are_no_gpus() -> None:
    (problem,) = cluster_problems(job("mnist-nccl", {}), gpus_per_node=0, key=KEY)
    assert problem.key == f"{KEY}.backend"
    assert "this cluster has none" in problem.text
    assert cluster_problems(job("mnist-nccl", {}), gpus_per_node=1, key=KEY) == []
    assert cluster_problems(job("mnist-gloo", {}), gpus_per_node=0, key=KEY) == []
