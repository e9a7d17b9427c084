"""Descriptions of the user's input, and of what is allowed instead; programs' output. Pure."""

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any

_LONGEST_QUOTE = 60
_NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
_LIMITS = {
    "minimum": "of at least",
    "exclusiveMinimum": "above",
    "maximum": "of at most",
    "exclusiveMaximum": "below",
    "minLength": "of a length of at least",
    "maxLength": "of a length of at most",
    "pattern": "matching",
}


def choices(word: str, allowed: Collection[str]) -> str:
    """Return the alternatives to `word`, the likeliest first."""
    close = likeliest(word, allowed)
    listed = ", ".join(sorted(allowed))
    if close is None:
        return f"allowed: {listed}"
    return f"did you mean {quote(close)}? Allowed: {listed}"


def likeliest(word: str, allowed: Collection[str]) -> str | None:
    """Return the one of `allowed` that `word` most probably means; None when it is like none."""
    return next(iter(difflib.get_close_matches(word, allowed, n=1)), None)


def meant(word: str, allowed: Collection[str]) -> str:
    """Return the question whether another word was meant, after a blank; empty without one."""
    close = likeliest(word, allowed)
    return f" Did you mean {close}?" if close is not None else ""


def quote(value: object) -> str:
    """Return `value` as it would stand in the stack's file, on one line and not too long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= _LONGEST_QUOTE:
        return text
    closing = '"' if isinstance(value, str) else ""
    return f"{text[:_LONGEST_QUOTE]}…{closing}"


def describe(node: Mapping[str, Any]) -> str:
    """Describe one JSON schema without its references; empty when nothing describes it."""
    if "description" in node:
        return str(node["description"])
    if "const" in node:
        return quote(node["const"])
    if "enum" in node:
        return f"one of {', '.join(map(str, node['enum']))}"
    if "properties" in node:
        return f"a map of {', '.join(node['properties'])}"
    return _NOUNS.get(str(node.get("type")), "") + _limits(node)


def _limits(node: Mapping[str, Any]) -> str:
    if "minimum" in node and "maximum" in node:
        return f" from {node['minimum']} to {node['maximum']}"
    if least := node.get("minItems"):
        return f" of at least {least} item{'' if least == 1 else 's'}"
    limits = [f"{word} {node[name]}" for name, word in _LIMITS.items() if name in node]
    return f" {' and '.join(limits)}" if limits else ""


def json_map(line: str) -> dict[str, Any]:
    """Return the map that a line of JSON holds; an empty one for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
