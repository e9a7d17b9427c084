"""What the engine asks for: one resource, as the program wants it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pulumi.provider.experimental.property_value import PropertyValue

from scripts.offline.kubernetes_standin.checkpoint import manager_of
from scripts.offline.kubernetes_standin.manifest import Object, to_object


@dataclass(frozen=True)
class Wish:
    """A resource to be made or changed.

    Args:
        urn: Its name for the engine.
        given: Its inputs, as Check returned them.
        state: What the stack's state has of it, empty when it is new.
        ignored: Paths that `ignore_changes` names.
        timeout: `customTimeouts` in seconds, 0 when there is none.
    """

    urn: str
    given: Mapping[str, PropertyValue]
    state: Mapping[str, PropertyValue] = field(default_factory=dict)
    ignored: Sequence[str] = ()
    timeout: float = 0

    @cached_property
    def obj(self) -> Object:
        """The inputs as a manifest."""
        return to_object(self.given)

    @cached_property
    def manager(self) -> str:
        """The name under which the object's fields are managed."""
        return manager_of(self.urn, self.obj, self.state)
