"""sdk/: the schema of what other people's programs use, and the documents about it."""

import json
import re
from typing import Any

import pytest

from core.paths import CHECKOUT
from infra.provider.provider import SCHEMA as SCHEMA_FILE
from tests.docs import package, schemas

SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
[COMPONENT] = SCHEMA["resources"].values()
LIBRARY = (CHECKOUT / "docs/library.md").read_text()
TYPES = {**SCHEMA["types"], "inputs": {"properties": COMPONENT["inputProperties"]}}


def test_the_schema_is_current() -> None:
    """The schema and the SDK are current."""
    message = "run .venv-test/bin/python -m tests.docs.package"
    assert SCHEMA_FILE.read_text() == package.schema(), message


def test_a_component_has_the_settings_of_a_stack_and_secrets_as_its_inputs() -> None:
    config = json.loads(schemas.stack())["properties"]["config"]["properties"]
    settings = {key.removeprefix("slipway:") for key in config}
    assert COMPONENT["inputProperties"].keys() == settings | {"secrets"}


@pytest.mark.parametrize("name", TYPES)
def test_every_field_is_explained(name: str) -> None:
    fields = TYPES[name]["properties"]
    assert [key for key in fields if not fields[key].get("description")] == []


def test_secrets_are_marked() -> None:
    marked = {
        (name.rpartition(":")[2], key)
        for name, each in {**TYPES, "outputs": COMPONENT}.items()
        for key, field in each["properties"].items()
        if field.get("secret")
    }
    of_clusters = {("KubeconfigCluster", "kubeconfig"), ("outputs", "kubeconfig")}
    assert marked == {("inputs", "secrets"), *of_clusters}


def test_each_way_is_shown_in_few_lines() -> None:
    for language in ("yaml", "python"):
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", LIBRARY, re.MULTILINE | re.DOTALL)
        assert blocks
        assert all(len(block.splitlines()) <= 10 for block in blocks)
    assert len((CHECKOUT / "examples/automation.py").read_text().splitlines()) <= 15


def test_the_page_names_every_input() -> None:
    section = LIBRARY.split("## ")[-1]
    assert [key for key in COMPONENT["inputProperties"] if f"`{key}`" not in section] == []
