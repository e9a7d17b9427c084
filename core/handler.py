"""The interface that a resource type implements; `infra.provider` handles Pulumi's protocol."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

from core.context import Context
from core.problem import Problem, located


class Placeholder(Enum):
    """A marker that stands in for a property's value."""

    UNKNOWN = auto()
    """The value is not known before the resource exists."""
    SECRET = auto()
    """The value must not be shown."""

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


UNKNOWN = Placeholder.UNKNOWN
SECRET = Placeholder.SECRET

Properties = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A change to one property, as a preview shows it."""

    path: str
    """The property, in Pulumi's path syntax (`manifest.spec.runPolicy`)."""
    kind: Literal["add", "update", "delete"] = "update"
    replace: bool = False
    """True if the change requires replacing the resource."""
    drift: bool = False
    """True if the live object differs from the state; False if the new inputs differ from it."""


class Handler(ABC):
    """The life cycle of one resource type; `state` holds the previous inputs and the outputs.

    Methods block and may run concurrently in threads. Users see the errors that methods raise.
    """

    outputs: ClassVar[tuple[str, ...]] = ()
    """Properties that are known only once the resource exists."""
    secret_outputs: ClassVar[frozenset[str]] = frozenset()
    """Properties that are encrypted in the stack's state."""
    replaced_by: ClassVar[frozenset[str]] = frozenset()
    """Paths of inputs that can't change without replacing the resource."""
    passing_inputs: ClassVar[frozenset[str]] = frozenset()
    """Inputs that are never stored in the state; `diff`, `create` and `update` receive them."""

    def check(self, inputs: Properties) -> list[Problem]:
        """Return a problem for each invalid input. Values may be UNKNOWN in a preview."""
        return []

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return the changes to the inputs or, if there are none, to the live object (`drift`)."""
        stored = {key: value for key, value in inputs.items() if key not in self.passing_inputs}
        changes = compare(state, stored)
        if changes:
            return [replace(each, replace=each.path in self.replaced_by) for each in changes]
        return self.drift(state, inputs, context)

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return how the live object drifted (default: not). Called only if no input changed."""
        return []

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Return the outputs, as far as they are known before the update.

        `state` is None for a resource that is to be created or replaced. Values in `inputs` may be
        UNKNOWN; `shown` contains the same values for display, with SECRET in place of secrets.
        """
        outputs = dict.fromkeys(self.outputs, UNKNOWN)
        if state is not None:
            outputs |= {name: state[name] for name in self.outputs if name in state}
        return outputs

    @abstractmethod
    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Create the resource, or adopt one that an interrupted `create` left behind.

        Returns the resource's ID and outputs.
        """

    def read(self, state: Properties, context: Context) -> Properties | None:
        """Return the current outputs, by default from `state`, or None if the resource is gone."""
        return {name: state[name] for name in self.outputs}

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Update the resource in place and return its outputs. The default calls `create`."""
        return self.create(inputs, context)[1]

    def delete(self, state: Properties, context: Context) -> None:  # noqa: B027  # the default
        """Delete the resource if it exists.

        The default does nothing, which is right for a resource that exists only in the state.
        """


@dataclass(frozen=True)
class Lazy:
    """A class or function, given by its full name, whose module is imported only when needed."""

    name: str

    def load(self) -> Any:
        """Import the module and return the object with that name."""
        return resolve_name(self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)


def compare(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Change]:
    """Return the differences between `inputs` and the inputs in `state`, ignoring its outputs."""
    return differences({key: state[key] for key in inputs if key in state}, inputs)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[Change]:
    """Return the differences between two documents, each with its path in Pulumi's syntax."""
    changes = []
    for key in old.keys() | new.keys():
        here = located(path, (key,))
        if key not in old:
            changes.append(Change(here, "add"))
        elif key not in new:
            changes.append(Change(here, "delete"))
        elif isinstance(old[key], Mapping) and isinstance(new[key], Mapping):
            changes += differences(old[key], new[key], here)
        elif old[key] != new[key]:
            changes.append(Change(here))
    return sorted(changes, key=lambda change: change.path)
