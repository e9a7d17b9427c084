"""What the installed SDK says of a resource type: its inputs and outputs, by name and type.

Only the module of the type that is asked for is imported; all of the SDK would take a minute.
"""

import re
import sys
import typing
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.metadata import version
from types import NoneType, UnionType
from typing import Any

import pulumi
from pulumi.output import T

from scripts.offline.azure_recording.shapes import (
    Anything,
    Choice,
    ListOf,
    MapOf,
    Object,
    OneOf,
    Scalar,
    Shape,
)

PACKAGE = "azure-native"
_API_VERSION = re.compile(r"Uses Azure REST API version (\S+?)\.?\s")
# `pulumi.Input` names these without importing them.
_NAMES = {"Output": pulumi.Output, "T": T}


class NoSuchType(LookupError):
    """The SDK has no resource of that type."""


def sdk_version() -> str:
    """Return the version of the SDK, which is the plugin's as well."""
    return version("pulumi-azure-native")


@cache
def inputs_of(token: str) -> Object:
    """Return what a resource of type `token` takes.

    Raises:
        NoSuchType: there is none in this version of the SDK.
    """
    resource = _resource(token)
    module = sys.modules[resource.__module__]
    # `Init` where `Args` is what describes such a resource inside of another.
    name = f"{resource.__name__}InitArgs"
    holder = getattr(module, name, None) or getattr(module, f"{resource.__name__}Args")
    return _object(holder)


@cache
def outputs_of(token: str) -> Object:
    """Return what a resource of type `token` has once it is there, besides `id` and `urn`.

    Raises:
        NoSuchType: there is none in this version of the SDK.
    """
    return _object(_resource(token))  # type: ignore[arg-type]  # a class has a hash


@cache
def provider_inputs() -> Object:
    """Return what the provider itself may be configured with."""
    return _object(import_module("pulumi_azure_native.provider").ProviderArgs)


def api_version(token: str) -> str:
    """Return the version of the service's interface that the SDK uses, such as `2025-09-01`."""
    texts = [each.__doc__ or "" for each in typing.get_overloads(_resource(token).__init__)]
    found = _API_VERSION.search("\n".join(texts))
    return "" if found is None else found.group(1)


def _resource(token: str) -> type[object]:
    package, _, rest = token.partition(":")
    module, _, name = rest.partition(":")
    try:
        found = getattr(import_module(f"pulumi_azure_native.{module}"), name)
    except (ImportError, AttributeError):
        found = None
    if package != PACKAGE or not isinstance(found, type):
        raise NoSuchType(
            f"there is no resource type {token!r} in pulumi-azure-native {sdk_version()}"
        )
    return found


@cache
def _object(holder: type[object]) -> Object:
    return Object(
        lambda: {
            getter.fget._pulumi_name: _read(_annotation(getter.fget, holder))  # noqa: SLF001
            for getter in _getters(holder)
        }
    )


def _getters(holder: type[object]) -> Iterator[Any]:
    for member in vars(holder).values():
        if isinstance(member, property) and hasattr(member.fget, "_pulumi_name"):
            yield member


def _annotation(getter: Any, holder: type[object]) -> Any:
    module = vars(sys.modules[holder.__module__])
    return typing.get_type_hints(getter, module, _NAMES)["return"]


def _read(annotation: Any) -> tuple[Shape, bool]:
    """Return the shape that `annotation` stands for, and whether a value has to be there."""
    members = list(_members(annotation))
    shapes = [_shape(each) for each in members if each is not NoneType]
    choices = [shape for shape in shapes if isinstance(shape, Choice)]
    if choices:
        # The rest is text that the SDK lets through for values that are newer than it is; the
        # interface that it uses is of one version, and its values are these.
        shapes = list(choices)
    shape = shapes[0] if len(shapes) == 1 else OneOf(tuple(shapes))
    return shape, NoneType not in members


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the alternatives in `annotation`, less what only says that a value may come later."""
    origin = typing.get_origin(annotation)
    if origin in {typing.Union, UnionType}:
        for each in typing.get_args(annotation):
            if typing.get_origin(each) not in {Awaitable, pulumi.Output}:
                yield from _members(each)
    elif origin is pulumi.Output:
        yield from _members(typing.get_args(annotation)[0])
    else:
        yield annotation


def _shape(annotation: Any) -> Shape:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Sequence:
        return ListOf(_read(arguments[0])[0])
    if origin is Mapping:
        return MapOf(_read(arguments[1])[0])
    if annotation in {str, int, float, bool}:
        return Scalar(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return Choice(tuple(each.value for each in annotation))
    if isinstance(annotation, type) and any(_getters(annotation)):
        return _object(annotation)
    return Anything()
