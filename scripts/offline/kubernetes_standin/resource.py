"""A resource as the engine passes it, and what the stack's state keeps of its object.

The state has the real plugin's own form: beside the live object, the inputs that made it, and the
name under which its fields are managed. So a stack can change over to the real plugin, and back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pulumi.provider.experimental.property_value import PropertyValue

from scripts.offline.kubernetes_standin.kinds import Kind, Reference, kind_of
from scripts.offline.kubernetes_standin.manifest import (
    Object,
    Properties,
    field_manager,
    to_object,
    to_properties,
    with_metadata,
)

_MANAGER = "__fieldManager"
DEFAULT_SECONDS = 600.0


@dataclass(frozen=True)
class ResourceRequest:
    """What the engine requests for one resource.

    Args:
        urn: Its name for the engine.
        inputs: Its inputs, as Check returned them; none for a deletion.
        state: What the stack's state has of it, empty when it is new.
        timeout: `customTimeouts` in seconds, 0 without one.

    Raises:
        Unserved: its type is none of this product's.
    """

    urn: str
    inputs: Mapping[str, PropertyValue] = field(default_factory=dict)
    state: Mapping[str, PropertyValue] = field(default_factory=dict)
    timeout: float = 0

    @cached_property
    def kind(self) -> Kind:
        """The kind of its object."""
        return kind_of(self.urn)

    @cached_property
    def obj(self) -> Object:
        """The inputs as a manifest."""
        return to_object(self.inputs)

    @cached_property
    def before(self) -> Object:
        """The live object as the state has it."""
        return to_object(
            {key: value for key, value in self.state.items() if not key.startswith("__")}
        )

    @cached_property
    def reference(self) -> Reference:
        """Which object the inputs declare."""
        return Reference.of_manifest(self.kind, self.obj)

    @property
    def limit(self) -> float:
        """How many seconds to wait at most."""
        return self.timeout or DEFAULT_SECONDS

    @cached_property
    def manager(self) -> str:
        """The name under which the object's fields are managed: as before, or the URN's."""
        before = self.state.get(_MANAGER)
        return field_manager(self.urn) if before is None else str(before.value)

    def state_of(self, live: Mapping[str, object], obj: Object | None = None) -> Properties:
        """Return the state for a `live` object that `obj`, by default the inputs, made."""
        made_from = self.obj if obj is None else obj
        state = to_properties(with_metadata(live, managedFields=None), self.inputs)
        state["__inputs"] = PropertyValue(to_properties(made_from, self.inputs))
        state["__initialApiVersion"] = PropertyValue(self.kind.api_version)
        state[_MANAGER] = PropertyValue(self.manager)
        return state
