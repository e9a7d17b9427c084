"""What the stack's state holds of an object, in the real plugin's own form.

Beside the live object itself: the inputs that made it, and the name under which its fields are
managed. So a stack can change over to the real plugin, and back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue

from core.values import UNKNOWN
from scripts.offline.kubernetes_standin.manifest import (
    Object,
    Properties,
    annotation,
    to_object,
    to_properties,
    with_metadata,
)
from scripts.offline.kubernetes_standin.ownership import field_manager
from scripts.offline.kubernetes_standin.secrecy import conceal

_INPUTS = "__inputs"
_MANAGER = "__fieldManager"
_API_VERSION = "__initialApiVersion"
# What a dry run invents and the real object will have otherwise.
_INVENTED = ("creationTimestamp", "resourceVersion", "uid")


@dataclass(frozen=True)
class InitFailed(Exception):
    """The object was made, but is not ready; the state keeps it, and the next `up` tries again."""

    resource_id: str
    message: str
    details: Sequence[str]
    state: Properties
    inputs: Properties | None = None

    def __str__(self) -> str:
        return self.message


def state_of(
    live: Mapping[str, Any],
    inputs: Mapping[str, Any],
    given: Mapping[str, PropertyValue],
    manager: str,
) -> Properties:
    """Return the state of an object; what is secret in `given` is so in the state."""
    outputs = conceal(to_properties(with_metadata(live, managedFields=None)), given)
    outputs[_INPUTS] = PropertyValue(conceal(to_properties(inputs), given))
    outputs[_API_VERSION] = PropertyValue(str(inputs["apiVersion"]))
    outputs[_MANAGER] = PropertyValue(manager)
    return outputs


def previewed(
    applied: Mapping[str, Any], inputs: Mapping[str, Any], given: Mapping[str, PropertyValue]
) -> Properties:
    """Return a dry run's outcome, without what only the real object will have."""
    names = {name: UNKNOWN for name in _INVENTED if name in applied["metadata"]}
    outcome = with_metadata(applied, **names, name=inputs["metadata"]["name"], managedFields=None)
    outcome.pop("status", None)
    return conceal(to_properties(outcome), given)


def inputs_in(state: Mapping[str, PropertyValue]) -> dict[str, PropertyValue]:
    """Return the inputs that `state` was made from, empty when it has none."""
    found = state.get(_INPUTS)
    return dict(found.value) if found is not None and isinstance(found.value, Mapping) else {}


def live_in(state: Mapping[str, PropertyValue]) -> Object:
    """Return the object as `state` has it."""
    return to_object({key: value for key, value in state.items() if not key.startswith("__")})


def manager_of(urn: str, obj: Mapping[str, Any], state: Mapping[str, PropertyValue]) -> str:
    """Return the name that manages the object's fields: as annotated, as before, or the URN's."""
    named = annotation(obj, "patchFieldManager")
    if named is not None:
        return named
    before = state.get(_MANAGER)
    return str(before.value) if before is not None else field_manager(urn)
