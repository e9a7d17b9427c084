"""docs/schemas: of a stack's settings as the program reads them, and of what its outputs hold."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from jobs.result import FailureDetails, RunResult
from tests.docs import schemas

ROOT = Path(__file__).resolve().parents[3]
SCHEMA: dict[str, Any] = json.loads(schemas.STACK.read_text())
RESULTS: dict[str, Any] = json.loads(schemas.RESULTS.read_text())
CLUSTERS = [
    (None, settings)
    for file in sorted((ROOT / "tests/clusters").glob("*.good.yaml"))
    for settings in yaml.safe_load(file.read_text()).values()
]
JOBS = [
    each
    for file in sorted((ROOT / "tests/policy").glob("*.good.yaml"))
    for each in yaml.safe_load(file.read_text())["job"].items()
]
JOBS.append(("mine", {"image": "registry.example/team/train:1.4"}))  # runs its ENTRYPOINT
STACKS = sorted((ROOT / "stacks").glob("*.yaml"))


def errors(document: Any, schema: dict[str, Any] = SCHEMA) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


def test_the_files_are_current_and_schemas() -> None:
    message = "run .venv/bin/python -m tests.docs.schemas"
    assert schemas.STACK.read_text() == schemas.stack(), message
    assert schemas.RESULTS.read_text() == schemas.results(), message
    for schema in (SCHEMA, RESULTS):
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(("job", "fields"), [*CLUSTERS, *JOBS])
def test_good_settings_are_valid_and_a_misspelt_key_is_an_error(
    job: str | None, fields: dict[str, Any]
) -> None:
    def found(fields: dict[str, Any]) -> list[str]:
        config = {"slipway:cluster": fields} if job is None else {"slipway:jobs": {job: fields}}
        return errors({"config": config})

    assert found(fields) == []
    for key in fields:
        assert found({f"{each}x" if each == key else each: fields[each] for each in fields}), key


@pytest.mark.parametrize(
    "config",
    [
        {"slipway:job": {}},
        {"slipway:jobs": {"mnist-glo": {}}},
        {"slipway:jobs": {"mine": {"script": "train.py", "image": "team:1", "command": ["a"]}}},
        {"slipway:cluster": {"kind": "knd"}},
        {"slipway:cluster": {}},
        {"slipway:hfToken": "a secret in plain text"},
    ],
    ids=str,
)
def test_what_the_program_refuses_is_an_error(config: dict[str, Any]) -> None:
    assert errors({"config": config})


def test_secrets_and_numbers_as_the_command_line_writes_them_are_valid() -> None:
    jobs = {"mnist-gloo": {"learningRate": "0.02", "cpu": 2, "timeout": "5m", "env": {"LEVEL": 3}}}
    config = {"slipway:jobs": jobs, "slipway:hfToken": {"secure": "v1:abc"}}
    assert errors({"config": config, "encryptionsalt": "v1:…"}) == []


@pytest.mark.parametrize(
    ("schema", "name"), [(each, name) for each in (SCHEMA, RESULTS) for name in each["$defs"]]
)
def test_every_key_is_explained(schema: dict[str, Any], name: str) -> None:
    fields = schema["$defs"][name]["properties"]
    assert [key for key in fields if not fields[key].get("description")] == []


def test_a_result_of_a_success_and_of_a_failure_is_valid() -> None:
    success = RunResult(
        state="Succeeded", run_id="mine-1", world_size=4, accuracy=0.98, samples_seen=60000,
        class_accuracies={"7": 0.9}, epoch_accuracies=[0.98], exit_codes={"0": 0, "1": 0},
        artifacts={"net.pt": {"url": "file:///net.pt", "sha256": "00", "bytes": 1}},
        metrics={"val_loss": 0.31}, epoch_metrics={"val_loss": [0.5, 0.31]},
    )  # fmt: skip
    failure = RunResult(
        state="Failed", reason="rank 1 exited with code 3", exit_codes={"1": 3},
        failure=FailureDetails(rank=1, pod="mine-worker-0", exit_code=3, advice="fix it"),
        attempts=[{"number": 1, "state": "Failed"}],
    )  # fmt: skip
    output = json.loads(json.dumps({"one": success.as_map(), "two": failure.as_map()}))
    assert errors(output, RESULTS) == []
    assert errors({"one": {**output["one"], "accurcy": 1}}, RESULTS)


@pytest.mark.parametrize("name", ["result", "result.FailureDetails"])
def test_every_field_of_a_result_is_documented(name: str) -> None:
    section = (ROOT / "docs/results.md").read_text().split("## ")[1]
    assert [key for key in RESULTS["$defs"][name]["properties"] if f"`{key}`" not in section] == []


@pytest.mark.parametrize("file", STACKS, ids=lambda file: str(file.name))
def test_a_template_and_its_copy_are_valid_and_lead_to_the_schema(file: Path) -> None:
    text = file.read_text()
    assert errors(yaml.safe_load(text)) == []
    (path,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", text, re.MULTILINE)
    for folder in (file.parent, ROOT):
        assert (folder / path).resolve() == schemas.STACK
