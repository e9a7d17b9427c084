"""docs/schemas: editors complete and explain a stack's settings as the program reads them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from scripts import schemas

ROOT = Path(__file__).resolve().parents[3]
SCHEMA: dict[str, Any] = json.loads(schemas.STACK.read_text())
CLUSTERS = {
    f"{file.name}: {case}": settings
    for file in sorted((ROOT / "tests/clusters").glob("*.good.yaml"))
    for case, settings in yaml.safe_load(file.read_text()).items()
}
JOBS = {
    file.name: yaml.safe_load(file.read_text())["job"]
    for file in sorted((ROOT / "tests/policy").glob("*.good.yaml"))
}
STACKS = sorted((ROOT / "stacks").glob("*.yaml"))


def errors(document: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(document)]


def misspelt(value: Any) -> Iterator[Any]:
    """Yield copies of a job or a cluster's settings, each with one more letter in one key."""
    for key in value:
        yield {f"{name}x" if name == key else name: value[name] for name in value}


def test_the_file_is_current() -> None:
    assert schemas.STACK.read_text() == schemas.stack(), "run python -m scripts.schemas"


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("file", STACKS, ids=lambda file: str(file.name))
def test_the_settings_of_a_stack_are_valid(file: Path) -> None:
    assert errors(yaml.safe_load(file.read_text())) == []


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_a_clusters_good_settings_are_valid(settings: dict[str, Any]) -> None:
    assert errors({"config": {"slipway:cluster": settings}}) == []


@pytest.mark.parametrize("jobs", JOBS.values(), ids=JOBS)
def test_good_jobs_are_valid(jobs: dict[str, Any]) -> None:
    assert errors({"config": {"slipway:jobs": jobs}}) == []


@pytest.mark.parametrize("settings", CLUSTERS.values(), ids=CLUSTERS)
def test_a_misspelt_key_of_a_cluster_is_an_error(settings: dict[str, Any]) -> None:
    for wrong in misspelt(settings):
        assert errors({"config": {"slipway:cluster": wrong}}), wrong


@pytest.mark.parametrize("jobs", JOBS.values(), ids=JOBS)
def test_a_misspelt_key_of_a_job_is_an_error(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        for wrong in misspelt(job):
            assert errors({"config": {"slipway:jobs": {**jobs, name: wrong}}}), wrong


@pytest.mark.parametrize(
    "config",
    [
        {"slipway:job": {}},
        {"slipway:jobs": {"mnist-glo": {}}},
        {"slipway:jobs": {"mine": {"script": "train.py", "image": "team:1", "command": ["a"]}}},
        {"slipway:cluster": {"kind": "knd"}},
        {"slipway:cluster": {}},
    ],
    ids=str,
)
def test_what_the_program_refuses_is_an_error(config: dict[str, Any]) -> None:
    assert errors({"config": config})


def test_a_number_may_be_written_as_the_command_line_writes_it() -> None:
    jobs = {"mnist-gloo": {"learningRate": "0.02", "cpu": 2, "timeout": "5m", "env": {"LEVEL": 3}}}
    assert errors({"config": {"slipway:jobs": jobs}, "encryptionsalt": "v1:…"}) == []


@pytest.mark.parametrize("name", SCHEMA["$defs"])
def test_every_key_is_explained(name: str) -> None:
    fields = SCHEMA["$defs"][name]["properties"]
    assert [key for key in fields if not fields[key].get("description")] == []


@pytest.mark.parametrize("file", STACKS, ids=lambda file: str(file.name))
def test_an_editor_finds_the_schema_from_a_template_and_from_its_copy(file: Path) -> None:
    (path,) = re.findall(
        r"^# yaml-language-server: \$schema=(\S+)$", file.read_text(), re.MULTILINE
    )
    for folder in (file.parent, ROOT):
        assert (folder / path).resolve() == schemas.STACK
