"""What a property may hold, and what is wrong with a value that it may not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from core.text import choices, meant
from core.values import UNKNOWN


@dataclass(frozen=True)
class Finding:
    """Something that is not allowed: where, in Pulumi's path syntax, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Anything:
    """A property that the SDK gives no type."""


@dataclass(frozen=True)
class Scalar:
    """Text, a number or a truth value.

    Args:
        type: As Python calls it; a whole number will do for a `float`.
    """

    type: type[str] | type[int] | type[float] | type[bool]


@dataclass(frozen=True)
class Choice:
    """One of a list of values."""

    values: tuple[str | int | float, ...]


@dataclass(frozen=True)
class ListOf:
    """A list whose items are alike."""

    item: "Shape"


@dataclass(frozen=True)
class MapOf:
    """A map with keys of the program's own and values that are alike."""

    value: "Shape"


@dataclass(frozen=True)
class OneOf:
    """Any of several shapes."""

    shapes: tuple["Shape", ...]


@dataclass(frozen=True)
class Object:
    """A map with these keys and no others.

    Args:
        reading: Returns each property's shape and whether it has to be there, by name. Not before
            it is needed: the services' types refer to each other in circles.
    """

    reading: Callable[[], Mapping[str, tuple["Shape", bool]]] = field(repr=False)

    @cached_property
    def properties(self) -> Mapping[str, "Shape"]:
        """What each may hold, by name."""
        return {name: shape for name, (shape, _) in self.reading().items()}

    @cached_property
    def required(self) -> frozenset[str]:
        """Those that have to be there."""
        return frozenset(name for name, (_, needed) in self.reading().items() if needed)


Shape = Anything | Scalar | Choice | ListOf | MapOf | OneOf | Object

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def findings(value: object, shape: Shape, path: str = "") -> Iterator[Finding]:
    """Yield everything in `value` that `shape` doesn't allow; what isn't known yet is allowed."""
    if value is UNKNOWN or isinstance(shape, Anything):
        return
    if isinstance(shape, OneOf):
        # What the value was probably meant as: where the least is wrong with it.
        yield from min((list(findings(value, each, path)) for each in shape.shapes), key=len)
    elif isinstance(shape, Object | MapOf):
        yield from _in_map(value, shape, path)
    elif isinstance(shape, ListOf):
        yield from _in_list(value, shape, path)
    elif isinstance(shape, Choice):
        if value not in shape.values:
            known = [str(each) for each in shape.values]
            yield Finding(path, f"{value!r} is not allowed; {choices(str(value), known)}")
    elif not _fits(value, shape):
        yield Finding(path, f"{value!r} is not allowed; it takes {_WORDS[shape.type]}")


def joined(path: str, key: str) -> str:
    """Return the path of `key` in what is at `path`."""
    return f"{path}.{key}" if path else key


def _in_list(value: object, shape: ListOf, path: str) -> Iterator[Finding]:
    if not isinstance(value, list):
        yield Finding(path, f"{value!r} is not allowed; it takes a list")
        return
    for index, item in enumerate(value):
        yield from findings(item, shape.item, f"{path}[{index}]")


def _in_map(value: object, shape: Object | MapOf, path: str) -> Iterator[Finding]:
    if not isinstance(value, Mapping):
        yield Finding(path, f"{value!r} is not allowed; it takes a map")
    elif isinstance(shape, MapOf):
        for key, inner in value.items():
            yield from findings(inner, shape.value, joined(path, str(key)))
    else:
        yield from _in_object(value, shape, path)


def _in_object(value: Mapping[str, object], shape: Object, path: str) -> Iterator[Finding]:
    for key in sorted(shape.required - value.keys()):
        yield Finding(joined(path, key), "is missing, and the service needs it")
    for key, inner in value.items():
        if key in shape.properties:
            yield from findings(inner, shape.properties[key], joined(path, key))
        else:
            # Azure's own documents and its SDK differ in the case of words such as CIDR.
            same = [each for each in shape.properties if each.lower() == key.lower()]
            hint = f" Did you mean {same[0]}?" if same else meant(key, list(shape.properties))
            yield Finding(joined(path, key), f"there is no such property.{hint}")


def _fits(value: object, shape: Scalar) -> bool:
    if shape.type is bool or isinstance(value, bool):
        return shape.type is bool and isinstance(value, bool)
    if shape.type is float:
        return isinstance(value, int | float)
    return isinstance(value, shape.type)
