# ruff: noqa: N802  # the methods bear the protocol's own names
"""The engine's protocol for the double."""

import asyncio
from typing import Any, cast

from google.protobuf import empty_pb2, struct_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2

from core.handler import Change
from core.values import plain_map, wrap_map
from scripts.offline.azure_recording import life
from scripts.offline.azure_recording.catalog import served
from scripts.offline.azure_recording.checking import Asked, completed, without_nulls, wrong
from scripts.offline.azure_recording.credentials import answer
from scripts.offline.azure_recording.differ import changes
from scripts.offline.azure_recording.sdk import provider_inputs
from scripts.offline.azure_recording.session import Session

_KINDS = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class Double(ProviderServicer):
    """Answers the engine. What takes time runs in threads."""

    @property
    def _session(self) -> Session:
        return cast(Session, self._provider)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._session.cancelled.set()
        return empty_pb2.Empty()

    async def CheckConfig(self, request: Any, context: Any) -> proto.CheckResponse:
        given = {key: value for key, value in _plain(request.news).items() if key != "version"}
        # Whatever is no text travels as JSON, so only the names can be wrong here.
        unknown = given.keys() - provider_inputs().properties.keys()
        failures = [
            proto.CheckFailure(property=key, reason="azure-native has no such setting")
            for key in sorted(unknown)
        ]
        return proto.CheckResponse(inputs=request.news, failures=failures)

    async def DiffConfig(self, request: Any, context: Any) -> proto.DiffResponse:
        return proto.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    async def Configure(self, request: Any, context: Any) -> proto.ConfigureResponse:
        self._session.configure_with(_plain(request.args))
        # Without `acceptSecrets` the engine keeps track of them itself.
        return proto.ConfigureResponse(supportsPreview=True)

    async def Check(self, request: Any, context: Any) -> proto.CheckResponse:
        await asyncio.to_thread(self._session.introduce)
        asked = Asked(request.urn, _plain(request.news), _plain(request.olds), request.randomSeed)
        location = self._session.configuration.get("location")
        inputs = await asyncio.to_thread(completed, asked, location)
        found = await asyncio.to_thread(wrong, asked.token, inputs)
        return proto.CheckResponse(
            inputs=_struct(inputs),
            failures=[proto.CheckFailure(property=each.path, reason=each.reason) for each in found],
        )

    async def Diff(self, request: Any, context: Any) -> proto.DiffResponse:
        kind = served(Asked(request.urn, {}).token)
        found = changes(kind, _plain(request.old_inputs), _plain(request.news))
        return _diff([each for each in found if each.path not in request.ignoreChanges])

    async def Create(self, request: Any, context: Any) -> proto.CreateResponse:
        resource_id, outputs = await asyncio.to_thread(
            life.create,
            self._session,
            Asked(request.urn, {}).token,
            _plain(request.properties),
            preview=request.preview,
        )
        return proto.CreateResponse(id=resource_id, properties=_struct(outputs))

    async def Update(self, request: Any, context: Any) -> proto.UpdateResponse:
        outputs = await asyncio.to_thread(
            life.update,
            self._session,
            Asked(request.urn, {}).token,
            request.id,
            {"old": _plain(request.old_inputs), "new": _plain(request.news)},
            preview=request.preview,
        )
        return proto.UpdateResponse(properties=_struct(outputs))

    async def Read(self, request: Any, context: Any) -> proto.ReadResponse:
        found = await asyncio.to_thread(
            life.read, self._session, request.id, _plain(request.inputs)
        )
        if found is None:
            return proto.ReadResponse()
        inputs, outputs = found
        return proto.ReadResponse(
            id=request.id, inputs=_struct(inputs), properties=_struct(outputs)
        )

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        await asyncio.to_thread(life.delete, self._session, request.id)
        return empty_pb2.Empty()

    async def Invoke(self, request: Any, context: Any) -> proto.InvokeResponse:
        found = await asyncio.to_thread(answer, self._session, request.tok, _plain(request.args))
        # `return` is a keyword, so it can't be written as an argument.
        told: dict[str, Any] = {"return": _struct(found)}
        return proto.InvokeResponse(**told)

    async def GetSchema(self, request: Any, context: Any) -> Any:
        raise NotImplementedError(
            "the recording double has no schema; use an SDK that is installed"
        )


def _plain(message: struct_pb2.Struct) -> dict[str, Any]:
    found: dict[str, Any] = without_nulls(plain_map(PropertyValue.unmarshal_map(message)))
    return found


def _struct(properties: dict[str, Any]) -> struct_pb2.Struct:
    return PropertyValue.marshal_map(wrap_map(properties))


def _diff(found: list[Change]) -> proto.DiffResponse:
    response = provider_pb2.DiffResponse
    replaces = [each.path for each in found if each.replace]
    return proto.DiffResponse(
        changes=response.DIFF_SOME if found else response.DIFF_NONE,
        replaces=replaces,
        # Names are fixed, and Azure has each once.
        deleteBeforeReplace=bool(replaces),
        diffs=sorted({each.path.partition(".")[0] for each in found}),
        detailedDiff={
            each.path: provider_pb2.PropertyDiff(
                kind=_KINDS[each.kind, each.replace], inputDiff=True
            )
            for each in found
        },
        hasDetailedDiff=True,
    )
