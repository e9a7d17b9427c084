"""The interface of a resource type, in plain Python: `infra.provider` speaks the protocol."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from pkgutil import resolve_name
from typing import Any, ClassVar, Literal

from core.context import Context
from core.problem import Problem, located


class Placeholder(Enum):
    """What stands for a value."""

    UNKNOWN = auto()
    """One that is not known before the resource exists."""
    SECRET = auto()
    """One that is not to be shown."""

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


UNKNOWN = Placeholder.UNKNOWN
SECRET = Placeholder.SECRET

Properties = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """One property that differs, as a preview names it."""

    path: str
    """The property, in Pulumi's path syntax (`manifest.spec.runPolicy`)."""
    kind: Literal["add", "update", "delete"] = "update"
    replace: bool = False
    """Whether the change requires a replacement of the resource."""
    drift: bool = False
    """Whether the live object differs from the state's inputs, rather than the new inputs."""


class Handler(ABC):
    """The life cycle of one resource type; `state` is the previous inputs and the outputs.

    Methods block and may run beside each other in threads. The user sees what they raise.
    """

    outputs: ClassVar[tuple[str, ...]] = ()
    """Properties that are only known once the resource exists."""
    secret_outputs: ClassVar[frozenset[str]] = frozenset()
    """Properties that stay encrypted in the stack's state."""
    replaced_by: ClassVar[frozenset[str]] = frozenset()
    """Paths of inputs that another resource is needed for when they change."""
    passing_inputs: ClassVar[frozenset[str]] = frozenset()
    """Inputs that are never stored: `diff`, `create` and `update` get them, a state has none."""

    def check(self, inputs: Properties) -> list[Problem]:
        """Return each input that is not allowed, by its key. Values may be UNKNOWN in a preview."""
        return []

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return what differs: inputs, or else the live object. Each message appears just once."""
        stored = {key: value for key, value in inputs.items() if key not in self.passing_inputs}
        changes = compare(state, stored)
        if changes:
            return [replace(each, replace=each.path in self.replaced_by) for each in changes]
        return self.drift(state, inputs, context)

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return what differs from the state, on every `up` that changes no input: here nothing."""
        return []

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Return the outputs as far as they are known before anything is changed.

        `state` is None for a resource that is to be created or replaced. Values of `inputs` may be
        UNKNOWN; `shown` is the same as shown to the user, where secrets are SECRET.
        """
        known = dict.fromkeys(self.outputs, UNKNOWN)
        if state is not None:
            known |= {name: state[name] for name in self.outputs if name in state}
        return known

    @abstractmethod
    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Make the resource, or adopt what an interrupted create left; return id and outputs."""

    def read(self, state: Properties, context: Context) -> Properties | None:
        """Return the outputs as they are now, by default as in the state; None when it is gone."""
        return {name: state[name] for name in self.outputs}

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Bring the resource to `inputs` in place and return its outputs: by default, create it."""
        return self.create(inputs, context)[1]

    def delete(self, state: Properties, context: Context) -> None:  # noqa: B027  # the default
        """Remove the resource if it exists; by default nothing, as it is in the state alone."""


@dataclass(frozen=True)
class Lazy:
    """A class or function by its full name, whose module is imported only when it is needed."""

    name: str

    def load(self) -> Any:
        """Import the module and return what is called so in it."""
        return resolve_name(self.name)

    def __call__(self, *arguments: Any) -> Any:
        return self.load()(*arguments)


def compare(state: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Change]:
    """Return how `inputs` differ from a state, of which the rest are outputs."""
    return differences({key: state[key] for key in inputs if key in state}, inputs)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[Change]:
    """Return the leaves in which two documents differ, in Pulumi's path syntax."""
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
