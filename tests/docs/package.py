"""Writes sdk/: the component's schema, and the SDK that Pulumi's own generator makes of it.

Both come from the classes that the program itself uses: `python -m tests.docs.package`, which
needs Go.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clusters.kinds import CLUSTERS
from core import tokens
from core.paths import CHECKOUT
from infra.provider.provider import SCHEMA
from infra.provider.resources import VERSION
from tests import go_programs
from tests.docs import schemas

PYTHON = CHECKOUT / "sdk/python"
_GENERATOR = Path(__file__).resolve().parent / "sdk_program"
_ANY = {"$ref": "pulumi.json#/Any"}
_TEXT = {"type": "string"}
_TYPE = "slipway:index:"
_CAPITALS = {"aks": "Aks", "azure-stack": "AzureStack"}
_ABOUT = (
    "Trains PyTorch jobs on a new or existing cluster. The inputs are those of a stack's file. "
    "Paths are relative to the program's folder."
)


def _map(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/types/{_TYPE}{name}"}


_OUTPUTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "jobs": ("The result of each job that ran, by its name.", _map(_reference("Result"))),
    "cluster": (
        "The cluster's kind, the namespace for jobs, and the parts that the component created.",
        _map(_ANY),
    ),
    "kubeconfig": ("The cluster's kubeconfig.", {"type": "string", "secret": True}),
    "skipped": ("The demos that the cluster can't run, each with the reason.", _map(_TEXT)),
    "notRun": ("The jobs that did not run, each with the reason.", _map(_TEXT)),
}


def schema() -> str:
    """Return the content of `SCHEMA`, as https://www.pulumi.com/docs/iac/extending-pulumi/schema/.

    It has no defaults: an SDK would send them, and override what the catalogue says of a job.
    """
    settings, _ = schemas.settings(as_text=False)
    types = dict(_types({**settings, **schemas.result_definitions()}))
    config: Mapping[str, Any] = json.loads(schemas.stack())["properties"]["config"]["properties"]
    texts = {key.partition(":")[2]: each.get("description") for key, each in config.items()}
    kinds = {key: _reference(_name(key)) for key in settings if key in CLUSTERS}
    mapping = {key: each["$ref"] for key, each in kinds.items()}
    discriminator = {"propertyName": "kind", "mapping": mapping}
    inputs: dict[str, dict[str, Any]] = {
        "cluster": {"oneOf": [*kinds.values()], "discriminator": discriminator},
        "jobs": _map(_reference("Job")),
        **{key: _reference(key.capitalize()) for key in ("outputs", "tracking", "notify")},
        "exec": {"type": "boolean"},
        "torch": _TEXT,
        "prices": _TEXT,
    }
    for key, each in inputs.items():
        inputs[key] = {**each, "description": texts[key] or settings[key]["description"]}
    inputs["secrets"] = {
        "description": "Secrets, by the keys that `notify` and jobs' `env` name: {config: key}.",
        **_map(_TEXT),
        "secret": True,
    }
    component = {
        "description": _ABOUT,
        "isComponent": True,
        "inputProperties": inputs,
        "requiredInputs": ["cluster"],
        "properties": {key: {"description": text, **it} for key, (text, it) in _OUTPUTS.items()},
        "required": [*_OUTPUTS],
    }
    python = {
        "respectSchemaVersion": True,
        "pyproject": {"enabled": True},
        "inputTypes": "classes-and-dicts",
        "requires": {"pulumi": ">=3.165.0,<4.0.0"},
    }
    package = {
        "name": "slipway",
        "displayName": "Slipway",
        "version": VERSION,
        "description": "Distributed PyTorch training on Kubernetes, from cluster to trained model.",
        "license": "Apache-2.0",
        "language": {"python": python},
        "types": types,
        "resources": {tokens.TRAINING: component},
    }
    return json.dumps(package, indent=1, ensure_ascii=False) + "\n"


def _name(definition: str) -> str:
    """Return what a definition of docs/schemas is called here: `aks.Spot` is AksSpot."""
    kind, _, inner = definition.partition(".")
    first = _CAPITALS.get(kind, kind.capitalize())
    is_cluster = not inner and kind in CLUSTERS
    return f"{first}{inner.removeprefix(first)}{'Cluster' if is_cluster else ''}"


def _types(definitions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, each in definitions.items():
        fields = {key: _field(it) for key, it in each["properties"].items()}
        more = {key: each[key] for key in ("description", "required") if key in each}
        yield f"{_TYPE}{_name(name)}", {"type": "object", "properties": fields, **more}


def _field(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field's type and description; what is content of a kubeconfig is a secret."""
    text = str(node["description"])
    if node.get("enum"):
        text += f"\n\nOne of {', '.join(f'`{each}`' for each in node['enum'])}."
    if "const" in node:
        return {**_type(node), "const": node["const"], "description": text}
    hidden = {"secret": True} if "A secret." in text else {}
    return {**_type(node), "description": text, **hidden}


def _type(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the type of a value by its JSON schema."""
    if "$ref" in node:
        return _reference(_name(str(node["$ref"]).rpartition("/")[2]))
    if variants := node.get("anyOf"):
        return _one_of([_type(each) for each in variants])
    kinds = node.get("type", "string" if "const" in node else None)
    if isinstance(kinds, list):
        return _one_of([_type({**node, "type": kind}) for kind in kinds])
    if kinds == "array":
        return {"type": "array", "items": _type(node["items"])}
    if kinds == "object":
        inner = node.get("additionalProperties")
        inner = next(iter(node.get("patternProperties", {}).values()), inner)
        return _map(_type(inner) if isinstance(inner, Mapping) else _ANY)
    return _ANY if kinds is None else {"type": kinds}


def _one_of(types: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a type that is one of several; a map of anything is anything."""
    distinct = [each for number, each in enumerate(types) if each not in types[:number]]
    if any(each.get("additionalProperties") == _ANY for each in distinct):
        return dict(_ANY)
    return distinct[0] if len(distinct) == 1 else {"oneOf": distinct}


def generate(folder: Path) -> None:
    """Write the SDK for Python of `SCHEMA` into a folder."""
    generator = go_programs.built("slipway-sdk", _GENERATOR, "github.com/pulumi/pulumi/pkg/v3", ".")
    subprocess.run([generator, SCHEMA, folder], check=True)
    # Its pyproject.toml names it, and has it written by whoever publishes the package.
    shutil.copy(folder / "pulumi_slipway/README.md", folder)


if __name__ == "__main__":
    SCHEMA.parent.mkdir(exist_ok=True)
    SCHEMA.write_text(schema(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as fresh:
        generate(Path(fresh))
        shutil.rmtree(PYTHON, ignore_errors=True)
        shutil.copytree(fresh, PYTHON)
