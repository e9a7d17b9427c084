"""Navigate a dataclass's JSON schema along a document's path, and describe valid values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.manifests import read
from core.problem import quote

_WORDS = read(Path(__file__).with_suffix(".yaml"))


@dataclass(frozen=True)
class Schema:
    """One location in a JSON schema, and the definitions it refers to."""

    node: Mapping[str, Any]
    definitions: Mapping[str, Any] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The keys allowed in this map; empty if any key is allowed or if this is not a map."""
        return sorted({name for each in self._variants() for name in each.get("properties", {})})

    def below(self, part: str | int) -> "Schema":
        """Return the schema at a key or an index; it is empty if the key is unknown."""
        for each in self._variants():
            inside = each.get("items") if isinstance(part, int) else _value_of(each, part)
            if isinstance(inside, Mapping):
                return Schema(inside, self.definitions)
        return Schema({}, self.definitions)

    def takes(self) -> str:
        """Describe the values allowed here, or return "" if the schema does not say."""
        if "description" in self.node:
            return str(self.node["description"])
        variants = [*filter(None, map(describe, self._variants()))]
        # After a variant with commas, "or" alone would seem to belong to its last part.
        return (", or " if any("," in each for each in variants[:-1]) else " or ").join(variants)

    def _variants(self) -> Iterator[Mapping[str, Any]]:
        """Yield the schema of each type allowed here except null, with references resolved."""
        for each in self.node.get("anyOf", [self.node]):
            resolved = self._resolved(each)
            if "anyOf" in resolved:
                yield from Schema(resolved, self.definitions)._variants()  # noqa: SLF001
            elif resolved.get("type") != "null":
                yield resolved

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" not in node:
            return node
        # A class's description is its docstring, which is for readers of the code.
        target = {**self.definitions[str(node["$ref"]).rpartition("/")[2]], "description": None}
        both = {**target, **node}
        return {key: both[key] for key in both if key != "$ref" and both[key] is not None}


def _value_of(node: Mapping[str, Any], name: str) -> Any:
    if name in node.get("properties", {}):
        return node["properties"][name]
    return next(iter(node.get("patternProperties", {}).values()), node.get("additionalProperties"))


def describe(node: Mapping[str, Any]) -> str:
    """Describe the values that a JSON schema without references allows, or return ""."""
    if "description" in node:
        return str(node["description"])
    if "const" in node:
        return quote(node["const"])
    if "enum" in node:
        return f"one of {', '.join(map(str, node['enum']))}"
    if "properties" in node:
        required = node.get("required", node["properties"])
        keys = [f"{key}{'' if key in required else ' (optional)'}" for key in node["properties"]]
        return f"a map with the keys {', '.join(keys)}"
    return str(_WORDS["nouns"].get(str(node.get("type")), "")) + _limits(node)


def _limits(node: Mapping[str, Any]) -> str:
    if "minimum" in node and "maximum" in node:
        return f" from {node['minimum']} to {node['maximum']}"
    if least := node.get("minItems"):
        return f" of at least {least} item{'' if least == 1 else 's'}"
    limits = [f"{word} {node[name]}" for name, word in _WORDS["limits"].items() if name in node]
    return f" {' and '.join(limits)}" if limits else ""
