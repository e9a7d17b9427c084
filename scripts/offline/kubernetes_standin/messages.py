"""The protocol's messages from the stand-in's own values."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf import struct_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2, status_pb2

from scripts.offline.kubernetes_standin.checkpoint import InitFailed
from scripts.offline.kubernetes_standin.differ import FieldChange
from scripts.offline.kubernetes_standin.paths import render
from scripts.offline.kubernetes_standin.secrecy import mask

_KINDS = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


def values(message: struct_pb2.Struct) -> dict[str, PropertyValue]:
    """Return the properties in a message."""
    return PropertyValue.unmarshal_map(message)


def struct(properties: Mapping[str, PropertyValue]) -> struct_pb2.Struct:
    """Return properties as a message."""
    return PropertyValue.marshal_map(dict(properties))


def some(any_changes: bool) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    """Return the protocol's word for whether there are changes."""
    response = provider_pb2.DiffResponse
    return response.DIFF_SOME if any_changes else response.DIFF_NONE


def diff_response(changes: Sequence[FieldChange], *, same_place: bool) -> proto.DiffResponse:
    """Return the answer to Diff; an object that keeps its name is deleted before replaced."""
    replaces = [render(change.path) for change in changes if change.replace]
    return proto.DiffResponse(
        changes=some(bool(changes)),
        replaces=replaces,
        deleteBeforeReplace=bool(replaces) and same_place,
        diffs=sorted({str(change.path[0]) for change in changes}),
        detailedDiff={
            render(change.path): provider_pb2.PropertyDiff(
                kind=_KINDS[change.kind, change.replace], inputDiff=True
            )
            for change in changes
        },
        hasDetailedDiff=True,
    )


async def abort_initialization(
    context: "grpc.aio.ServicerContext[Any, Any]",
    failure: InitFailed,
    secrets: Sequence[Mapping[str, PropertyValue]],
) -> NoReturn:
    """End a request so that the engine keeps the object that was made but is not ready."""
    reasons = [mask(text, *secrets) for text in (failure.message, *failure.details)]
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.resource_id,
        properties=struct(failure.state),
        reasons=reasons,
        inputs=None if failure.inputs is None else struct(failure.inputs),
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reasons[0])
    status.details.add().Pack(detail)
    await context.abort(
        grpc.StatusCode.UNKNOWN,
        reasons[0],
        (("grpc-status-details-bin", status.SerializeToString()),),
    )
