"""Writes docs/schemas: of a stack's settings, for editors, and of its results, for programs.

The schemas are made from the classes that the program itself uses: `python -m tests.docs.schemas`.
Only docs/schemas/events.schema.json is written by hand.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, cast, get_args, get_type_hints

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from images.build.releases import RELEASES
from infra.kept import KeptOutputs
from infra.tracking.settings import Tracking
from jobs.config import CATALOG
from jobs.model.job import TrainingJob
from jobs.result import RunResult
from jobs.run.notify import Notify

STACK = CHECKOUT / "docs/schemas/stack.schema.json"
RESULTS = CHECKOUT / "docs/schemas/results.schema.json"
_ARGUMENTS = re.compile(r"^Args:\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_ROW = re.compile(r"^\| `(?P<field>\w+)` \|[^|]*\|[^|]*\| (?P<text>.*) \|$", re.MULTILINE)
_ASIDE = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_PROGRAMS = ("script", "build", "image")
"""A job that is not in the catalogue has exactly one of these."""
_OTHERS: Mapping[str, tuple[type[Any], str]] = {
    "outputs": (KeptOutputs, "Storage for files from jobs without `outputs`."),
    "tracking": (Tracking, "Where runs are tracked: on a server or in files; by default nowhere."),
    "notify": (Notify, "A webhook that is called when a run ends."),
}
_PULUMI = ("secretsprovider", "encryptedkey", "encryptionsalt", "environment")


def stack() -> str:
    """Return the content of `STACK`: the JSON Schema of every `Pulumi.<stack>.yaml`."""
    definitions, name = settings()
    job = {"$ref": "#/$defs/job"}
    demos = {
        demo: {
            "description": f"A demo: {each.module or each.script} with {each.backend}; "
            "{} changes nothing.",
            "anyOf": [job, {"type": "null"}],
        }
        for demo, each in CATALOG.items()
    }
    jobs = {
        "description": "The jobs to train, by name: the catalogue's demos, and your own jobs.",
        "type": "object",
        "propertyNames": name,
        "properties": demos,
        "additionalProperties": {**job, "oneOf": [{"required": [each]} for each in _PROGRAMS]},
    }
    config = {
        "slipway:cluster": {
            "description": "The cluster that jobs train on.",
            "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in CLUSTERS],
        },
        "slipway:jobs": jobs,
        **{f"slipway:{key}": {"$ref": f"#/$defs/{key}"} for key in _OTHERS},
        "slipway:torch": {
            "description": "The version of torch for jobs that do not set one.",
            "enum": [*RELEASES],
        },
        "slipway:exec": {
            "description": "True lets `make shell` and `make stacks` run commands in jobs' pods.",
            "type": "boolean",
        },
        "slipway:prices": {"description": "A file with your own prices.", "type": "string"},
    }
    secret = {
        "description": "A secret of your own, which a job's `env` or `slipway:notify` names.",
        "type": "object",
        "properties": {"secure": {"type": "string"}},
        "required": ["secure"],
    }
    others = {"patternProperties": {"^(?!slipway:)": {}}, "additionalProperties": secret}
    schema = {
        "title": "The settings of a Slipway stack",
        "type": "object",
        "properties": {
            "config": {"type": "object", "properties": config, **others},
            **{key: {"description": "Written by Pulumi."} for key in _PULUMI},
        },
        "additionalProperties": False,
    }
    return _document(schema, definitions)


def settings(*, as_text: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the definitions of a stack's settings, and what a job's name is; see `_define`."""
    definitions: dict[str, Any] = {}
    for kind, cluster in CLUSTERS.items():
        known = _define(kind, cluster.settings.load(), definitions, as_text=as_text)
        known["properties"]["kind"] = {"const": kind, "description": "The kind of cluster."}
        # A cluster without a name is called after its stack.
        known["required"] = ["kind", *sorted({*known.get("required", ())} - {"name"})]
    job = _define("job", TrainingJob, definitions, _of_the_page(), as_text=as_text)
    name = job["properties"].pop("name")
    del job["properties"]["module"], job["required"]
    for key, (its, text) in _OTHERS.items():
        _define(key, its, definitions, as_text=as_text)["description"] = text
    return definitions, name


def result_definitions() -> dict[str, Any]:
    """Return the definitions of a job's result."""
    definitions: dict[str, Any] = {}
    _define("result", RunResult, definitions, as_text=False)
    return definitions


def results() -> str:
    """Return the content of `RESULTS`: the JSON Schema of `pulumi stack output jobs`."""
    definitions = result_definitions()
    result = {"$ref": "#/$defs/result"}
    schema = {"title": "Results by job", "type": "object", "additionalProperties": result}
    return _document(schema, definitions)


def _document(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    document = {**dialect, **schema, "$defs": definitions}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _of_the_page() -> dict[str, str]:
    """Return what docs/jobs.md says of each field of a job, without its links."""
    rows = _ROW.finditer((CHECKOUT / "docs/jobs.md").read_text())
    texts = {row["field"]: _LINK.sub(r"\1", _ASIDE.sub("", row["text"])) for row in rows}
    return {
        "name": "The PyTorchJob's name.",
        **{name: f"{it[0].upper()}{it[1:]}." for name, it in texts.items()},
    }


def _define(
    name: str,
    kind: type[Any],
    definitions: dict[str, Any],
    texts: Mapping[str, str] | None = None,
    *,
    as_text: bool = True,
) -> dict[str, Any]:
    """Add a class and those that it refers to, and return its definition.

    Args:
        name: What the definition is called, and those of the others begin with.
        kind: A dataclass, of pydantic or of the standard library.
        definitions: Takes them.
        texts: What its fields are, where its docstring does not say so.
        as_text: Whether a number may be text: `pulumi config set` writes 0.1 so.
    """
    schema = TypeAdapter(kind).json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    classes = {each.__name__: each for each in _classes(kind)}
    for other, each in schema.pop("$defs", {}).items():
        definitions[f"{name}.{other}"] = _explained(each, _told(classes[other]), as_text)
    definitions[name] = explained = _explained(schema, texts or _told(kind), as_text)
    return explained


def _classes(kind: Any) -> Iterator[type[Any]]:
    """Yield the dataclasses in a type, also those that their fields refer to."""
    if is_dataclass(kind):
        yield cast(type[Any], kind)
        inside: Iterable[Any] = get_type_hints(kind).values()
    else:
        inside = get_args(kind)
    for each in inside:
        yield from _classes(each)


def _told(kind: type[Any]) -> dict[str, str]:
    """Return each field's description by the docstrings of a class and its bases, its own last."""
    docs = "\n\n".join(inspect.getdoc(each) or "" for each in reversed(kind.__mro__[:-1]))
    sections = "\n".join(_ARGUMENTS.findall(docs))
    return {to_camel(name): " ".join(text.split()) for name, text in _ARGUMENT.findall(sections)}


def _explained(schema: dict[str, Any], texts: Mapping[str, str], as_text: bool) -> dict[str, Any]:
    """Return a class's schema with each field's description."""
    fields = {name: _converted(each, as_text) for name, each in schema["properties"].items()}
    for name, field in fields.items():
        takes = f"It takes {field['description']}." if "description" in field else ""
        if lines := [*filter(None, [texts.get(to_camel(name), ""), takes])]:
            field["description"] = "\n\n".join(lines)
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": fields, "additionalProperties": False, **required}


def _converted(node: Any, as_text: bool) -> Any:
    """Return a field's schema as an editor understands it."""
    if isinstance(node, list):
        return [_converted(each, as_text) for each in node if each != {"type": "null"}]
    if not isinstance(node, dict):
        return node
    extra = {"title", "alsoWritten"}
    found = {key: _converted(node[key], as_text) for key in node if key not in extra}
    types = [found.get("type"), *node.get("alsoWritten", ())]
    if "number" in types and as_text:
        types.append("string")
    if len(types) > 1:
        found["type"] = [*dict.fromkeys(types)]
    if str(found.get("pattern")).startswith("(?i)"):
        del found["pattern"]  # JavaScript's expressions have no such flag
    if found.get("default", ...) in (None, [], {}):
        del found["default"]
    if len(found.get("anyOf", ())) == 1:
        found.update(found.pop("anyOf")[0])
    return found


if __name__ == "__main__":
    STACK.write_text(stack())
    RESULTS.write_text(results())
