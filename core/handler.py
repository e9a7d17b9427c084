"""The interface of a resource type of the local provider.

A `Handler` is the life of one resource type in plain Python values. The provider
(`infra.provider.provider`) speaks the engine's protocol; handlers never see it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, ClassVar, Literal

from core.context import Context
from core.problem import located


class Unknown(Enum):
    """The type of `UNKNOWN`, a value that is not known before the resource exists."""

    UNKNOWN = auto()

    def __repr__(self) -> str:
        return "UNKNOWN"

    __str__ = __repr__


class Hidden(Enum):
    """The type of `SECRET`, which stands for a value that is not to be shown."""

    SECRET = auto()

    def __repr__(self) -> str:
        return "SECRET"

    __str__ = __repr__


UNKNOWN = Unknown.UNKNOWN
SECRET = Hidden.SECRET

Properties = dict[str, Any]


@dataclass(frozen=True)
class CheckFailure:
    """An input that is not allowed: which one, and what is allowed instead."""

    property: str
    reason: str


@dataclass(frozen=True)
class Change:
    """One property that differs, as a preview names it.

    Args:
        path: The property, in Pulumi's path syntax (`manifest.spec.runPolicy`).
        kind: Whether it appears, changes or disappears.
        replace: Whether the change requires a replacement of the resource.
        drift: True when the live object differs from the inputs in the state, rather than
            the new inputs from those in the state.
    """

    path: str
    kind: Literal["add", "update", "delete"] = "update"
    replace: bool = False
    drift: bool = False


class Handler(ABC):
    """The life cycle of one resource type.

    Methods block and may run beside each other in threads. The text of whatever they
    raise is shown to the user, so it names what failed and what to do next.
    `state` is always the previous inputs merged with the outputs.
    """

    type: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]] = ()
    """Properties that are only known once the resource exists."""
    secret_outputs: ClassVar[frozenset[str]] = frozenset()
    """Properties that stay encrypted in the stack's state."""
    passing_inputs: ClassVar[frozenset[str]] = frozenset()
    """Inputs that are never stored: `diff`, `create` and `update` get them, a state has none."""

    def check(self, inputs: Properties) -> list[CheckFailure]:
        """Return every input that is not allowed. Values may be UNKNOWN in a preview."""
        return []

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """Return what differs. Called on every `up`, so it may read the live object.

        Messages to `context` appear in previews as well, and once each, although the engine may
        call this several times.
        """
        stored = {key: value for key, value in inputs.items() if key not in self.passing_inputs}
        return compare(state, stored)

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Return the outputs as far as they are known before anything is changed.

        Args:
            state: Of a resource that is to be updated; None for one that is to be created or
                replaced.
            inputs: The new inputs; values may be UNKNOWN.
            shown: The same as shown to the user: secrets are SECRET.
            context: Where to report what will be done.
        """
        known = dict.fromkeys(self.outputs, UNKNOWN)
        if state is not None:
            known |= {name: state[name] for name in self.outputs if name in state}
        return known

    @abstractmethod
    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Make the resource, or adopt what an interrupted create left; return id and outputs."""

    @abstractmethod
    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """Return the outputs as they are now, or None when the resource is gone."""

    @abstractmethod
    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring the resource to `inputs` in place and return its outputs."""

    @abstractmethod
    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Remove the resource; succeeds when it does not exist."""


def compare(state: Mapping[str, Any], inputs: Mapping[str, Any], path: str = "") -> list[Change]:
    """Return the leaves in which `inputs` differ from `state`, in Pulumi's path syntax.

    At the top level only the properties in `inputs` count, because a state holds outputs too.
    """
    changes = []
    for key in inputs if not path else state.keys() | inputs.keys():
        here = located(path, (key,))
        if key not in state:
            changes.append(Change(here, "add"))
        elif key not in inputs:
            changes.append(Change(here, "delete"))
        elif isinstance(state[key], Mapping) and isinstance(inputs[key], Mapping):
            changes += compare(state[key], inputs[key], here)
        elif state[key] != inputs[key]:
            changes.append(Change(here))
    return sorted(changes, key=lambda change: change.path)
