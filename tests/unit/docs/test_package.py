"""sdk/: the schema of what other people's programs use, and the documents about it."""

import json
from typing import Any

from core.paths import CHECKOUT
from infra.provider.provider import SCHEMA as SCHEMA_FILE
from tests.docs import package, schemas

SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
[COMPONENT] = SCHEMA["resources"].values()


def test_the_schema_is_current() -> None:
    message = "run .venv-test/bin/python -m tests.docs.package"
    assert SCHEMA_FILE.read_text() == package.schema(), message


def test_a_component_has_the_settings_of_a_stack_and_secrets_as_its_inputs() -> None:
    config = json.loads(schemas.stack())["properties"]["config"]["properties"]
    settings = {key.removeprefix("slipway:") for key in config}
    assert COMPONENT["inputProperties"].keys() == settings | {"secrets"}


def test_every_field_is_explained_and_secrets_are_marked() -> None:
    inputs = {"properties": COMPONENT["inputProperties"]}
    fields = {
        (name.rpartition(":")[2], key): field
        for name, each in {**SCHEMA["types"], "inputs": inputs, "outputs": COMPONENT}.items()
        for key, field in each["properties"].items()
    }
    assert [key for key, field in fields.items() if not field.get("description")] == []
    of_clusters = {("KubeconfigCluster", "kubeconfig"), ("outputs", "kubeconfig")}
    marked = {key for key, field in fields.items() if field.get("secret")}
    assert marked == {("inputs", "secrets"), *of_clusters}


def test_the_page_names_every_input() -> None:
    section = (CHECKOUT / "docs/library.md").read_text().split("## ")[-1]
    assert [key for key in COMPONENT["inputProperties"] if f"`{key}`" not in section] == []
