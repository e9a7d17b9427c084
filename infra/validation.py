"""Checks a document against a dataclass and says what is wrong in a person's words.

pydantic does the checking. The texts are made from the type's JSON schema, so that what is
allowed is written down once, in the dataclass.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T")

_LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Problem:
    """One thing that is not allowed.

    Args:
        key: Where, as `pulumi config set --path` takes it.
        text: The value, and what is allowed instead.
    """

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def check(
    kind: type[T],
    document: Mapping[str, Any],
    key: str,
    *,
    base: Mapping[str, Any] | None = None,
) -> T | list[Problem]:
    """Return `document` as a `kind`, or everything that is wrong with it.

    Args:
        kind: A dataclass, of pydantic or of the standard library.
        document: What the person wrote, as decoded JSON.
        key: Where that stands in the configuration.
        base: Values of the fields that `document` leaves out.
    """
    adapter = TypeAdapter(kind)
    fields = adapter.json_schema().get("properties", {})
    allowed = sorted(fields)
    problems = [
        Problem(f"{key}.{name}", f"there is no such key; {choices(name, allowed)}")
        for name in document
        if name not in allowed
    ]
    written = {
        name: _number(value, fields[name]) for name, value in document.items() if name in allowed
    }
    defaults = {name: value for name, value in (base or {}).items() if name in fields}
    values = {**defaults, **written}
    try:
        # As JSON, where a list may stand for a tuple; nothing else is converted.
        checked = adapter.validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        return problems + [_problem(detail, fields, key) for detail in error.errors()]
    return problems or checked


def choices(word: str, allowed: Collection[str]) -> str:
    """Return what there is instead of `word`, the likeliest first."""
    close = likeliest(word, allowed)
    listed = ", ".join(sorted(allowed))
    if close is None:
        return f"allowed: {listed}"
    return f"did you mean {quote(close)}? Allowed: {listed}"


def likeliest(word: str, allowed: Collection[str]) -> str | None:
    """Return the one of `allowed` that `word` most probably means; None when it is like none."""
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), None)


def quote(value: object) -> str:
    """Return `value` as it would stand in the stack's file, on one line and not too long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _number(value: Any, field: Mapping[str, Any]) -> Any:
    """Read text as the number it is: `pulumi config set --path` writes 0.1 as a string."""
    if field.get("type") == "number" and isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


def _problem(detail: ErrorDetails, fields: Mapping[str, Any], key: str) -> Problem:
    path = [str(part) for part in detail["loc"] if part != "[key]"]
    reason = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else ""
    where = ".".join([key, *path])
    if not path:
        return Problem(where, reason or detail["msg"])
    takes = reason or _takes(path, detail, fields)
    if detail["type"] in {"missing", "missing_argument"}:
        return Problem(where, f"is missing; it takes {takes}")
    return Problem(where, f"{quote(detail['input'])} is not allowed; it takes {takes}")


def _takes(path: list[str], detail: ErrorDetails, fields: Mapping[str, Any]) -> str:
    """Return in words what the place at `path` takes."""
    if path[0] not in fields:
        return detail["msg"]
    field = fields[path[0]]
    if detail["loc"][-1] == "[key]":
        return f"names matching {next(iter(field['patternProperties']), '')}"
    for _ in path[1:]:
        inside = field.get("items") or field.get("additionalProperties")
        field = inside or next(iter(field.get("patternProperties", {}).values()), {})
    return _describe(field) or detail["msg"]


def _describe(field: Mapping[str, Any]) -> str:
    """Return a JSON schema in words; empty when it has none for it."""
    if "description" in field:
        return str(field["description"])
    if "anyOf" in field:
        kinds = [_describe(kind) for kind in field["anyOf"] if kind.get("type") != "null"]
        return " or ".join(kinds)
    if "const" in field:
        return quote(field["const"])
    if "enum" in field:
        return f"one of {', '.join(field['enum'])}"
    noun = {
        "integer": "a whole number",
        "number": "a number",
        "string": "text",
        "boolean": "true or false",
        "array": "a list",
        "object": "a map",
    }.get(str(field.get("type")), "")
    return noun + _limits(field)


def _limits(field: Mapping[str, Any]) -> str:
    if "minimum" in field and "maximum" in field:
        return f" from {field['minimum']} to {field['maximum']}"
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "of at most",
        "exclusiveMaximum": "below",
        "minLength": "of a length of at least",
        "minItems": "with items, at least",
        "maxLength": "of a length of at most",
        "pattern": "matching",
    }
    limits = [f"{word} {field[name]}" for name, word in words.items() if name in field]
    return f" {' and '.join(limits)}" if limits else ""
