"""Convert the Pulumi engine's property values to plain Python and back, and send messages."""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.protobuf import struct_pb2
from pulumi.provider.experimental.property_value import Computed, PropertyValue
from pulumi.runtime import rpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from core.handler import SECRET, UNKNOWN
from core.process import printable, utf8
from core.wording import as_typed

_SIGNATURE = rpc._special_sig_key  # noqa: SLF001  # they have no public names
_OUTPUT = rpc._special_output_value_sig  # noqa: SLF001
_LEFT_OUT = {
    "value": struct_pb2.Value(string_value=rpc.UNKNOWN),
    "dependencies": struct_pb2.Value(list_value=struct_pb2.ListValue()),
    "secret": struct_pb2.Value(bool_value=False),
}
"""Default values for fields that the engine omits from an output:
https://github.com/pulumi/pulumi/blob/master/sdk/go/common/resource/plugin/rpc.go"""


@dataclass
class EngineContext:
    """A `Context` that reports to the engine, and prints each message once per URN."""

    engine: engine_pb2_grpc.EngineStub
    urn: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    printed: set[tuple[str, str]] = field(default_factory=set)
    _shown: str | None = None  # the latest `status`, while the row shows it

    def status(self, message: str) -> None:
        if self._shown != message:
            self._shown = message
            self._log(message, severity=engine_pb2.INFO, ephemeral=True)

    def info(self, message: str) -> None:
        self._once(message, engine_pb2.INFO)

    def warn(self, message: str) -> None:
        self._once(message, engine_pb2.WARNING)

    def _once(self, message: str, severity: engine_pb2.LogSeverity.ValueType) -> None:
        if (self.urn, message) not in self.printed:
            self.printed.add((self.urn, message))
            self._shown = None
            self._log(message, severity=severity)

    def _log(self, message: str, **how: Any) -> None:
        text = printable(as_typed(message))
        self.engine.Log(engine_pb2.LogRequest(message=text, urn=self.urn, **how))


def complete(value: struct_pb2.Value) -> None:
    """Add the fields that the SDK's `PropertyValue.unmarshal` expects in outputs used as inputs.

    The engine omits unknown values, and those that are empty or false.
    """
    fields = value.struct_value.fields if value.HasField("struct_value") else {}
    if _SIGNATURE in fields and fields[_SIGNATURE].string_value == _OUTPUT:
        for name, each in _LEFT_OUT.items():
            if name not in fields:
                fields[name].CopyFrom(each)
    for each in [*fields.values(), *value.list_value.values]:
        complete(each)


def plain(value: PropertyValue, *, hide_secrets: bool = False) -> Any:
    """Return `value` as plain Python, with UNKNOWN for unknown values and SECRET for hidden ones.

    Raises `TypeError` for assets, archives and references, which no Slipway resource accepts.
    """
    if hide_secrets and value.is_secret:
        return SECRET
    inner = value.value
    # The SDK reads the engine's marker for unknown values as a string, and can't write Computed.
    if isinstance(inner, Computed) or inner == rpc.UNKNOWN:
        return UNKNOWN
    # Numbers are sent as floats; an integral one was written as an integer.
    if isinstance(inner, float) and inner.is_integer():
        return int(inner)
    if inner is None or isinstance(inner, bool | int | float | str):
        return inner
    if isinstance(inner, Mapping):
        return plain_map(inner, hide_secrets=hide_secrets)
    if isinstance(inner, Sequence):
        items = cast("Sequence[PropertyValue]", inner)
        return [plain(item, hide_secrets=hide_secrets) for item in items]
    raise TypeError(f"properties of type {value.type.value} are not supported by Slipway")


def plain_map(values: Mapping[str, PropertyValue], *, hide_secrets: bool = False) -> dict[str, Any]:
    """Return `values` as a dict sorted by key, as protobuf's order is random; see `plain`."""
    return {key: plain(values[key], hide_secrets=hide_secrets) for key in sorted(values)}


def wrap(value: Any, *, secret: bool = False) -> PropertyValue:
    """Return a plain Python value as a property value; the inverse of `plain`."""
    if value is UNKNOWN:
        value = rpc.UNKNOWN
    elif isinstance(value, str):
        value = utf8(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        # The engine's JSON has only floats; larger numbers are sent as text.
        if abs(value) <= sys.float_info.max:
            value = float(value)
        else:
            value = hex(value) if isinstance(value, int) else str(value)
    elif isinstance(value, Mapping):
        value = wrap_map(value)
    elif isinstance(value, Sequence):
        value = [wrap(item) for item in value]
    return PropertyValue(value, is_secret=secret)


def wrap_map(
    values: Mapping[str, Any], secrets: frozenset[str] = frozenset()
) -> dict[str, PropertyValue]:
    """Return `values` as property values; those named in `secrets` are marked secret."""
    return {utf8(key): wrap(value, secret=key in secrets) for key, value in values.items()}
