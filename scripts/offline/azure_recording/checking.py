"""Check: everything that is wrong with a resource's inputs, all of it at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scripts.offline.azure_recording import bodies, naming, rules, sdk
from scripts.offline.azure_recording.catalog import served
from scripts.offline.azure_recording.shapes import Finding, findings


@dataclass(frozen=True)
class Asked:
    """A resource as a program asks for it.

    Args:
        urn: Its name for the engine.
        inputs: Less what is null.
        before: Those of last time.
        seed: Of names to make up.
    """

    urn: str
    inputs: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    seed: bytes = b""

    @property
    def token(self) -> str:
        """Its type, which in a URN follows those of its parents: `parent$child`."""
        return self.urn.split("::")[2].rpartition("$")[2]


def completed(asked: Asked, location: str | None) -> dict[str, Any]:
    """Return the inputs with a name and, where the program says none, the provider's location."""
    kind = served(asked.token)
    found = naming.named(kind, asked.inputs, asked.before, asked.urn, asked.seed)
    if location is not None and "location" in sdk.inputs_of(asked.token).properties:
        found.setdefault("location", location)
    return found


def wrong(token: str, inputs: Mapping[str, Any]) -> list[Finding]:
    """Return what is not allowed, by the SDK's types and then by the services' rules."""
    found = list(findings(inputs, sdk.inputs_of(token)))
    if bodies.is_generic(token):
        found = [each for each in found if each.path not in bodies.ANOTHERS]
    shape = bodies.of(token, inputs)
    if shape is not None:
        found += findings(inputs.get("properties"), shape, "properties")
    # A rule may take for granted that types are right.
    return found or list(rules.broken(token, inputs))


def without_nulls(value: Any) -> Any:
    """Return `value` less what is null: to a plugin that is the same as not being there."""
    if isinstance(value, Mapping):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
