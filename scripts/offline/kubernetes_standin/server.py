# ruff: noqa: N802  # the methods bear the protocol's own names
"""The engine's protocol for the stand-in.

Requests are taken as they come rather than through `pulumi.provider.experimental.Provider`,
which leaves out what this plugin needs: a resource's old inputs, the error details by which the
engine knows that a resource was created but is not ready, and a DiffConfig that works.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2, status_pb2

from core.handler import Change
from infra.provider.engine import plain_map
from scripts.offline.kubernetes_standin import apply
from scripts.offline.kubernetes_standin.errors import NotReady, Unserved
from scripts.offline.kubernetes_standin.inputs import changes, check
from scripts.offline.kubernetes_standin.kinds import Reference, kind_of
from scripts.offline.kubernetes_standin.manifest import Object, to_object
from scripts.offline.kubernetes_standin.provider import KubernetesProvider, compare, problems
from scripts.offline.kubernetes_standin.refresh import read
from scripts.offline.kubernetes_standin.resource import ResourceRequest

_LEFT_OUT = frozenset({"webhooks[*].clientConfig.caBundle"})
"""Fields that may be ignored: the program never sets them, so that no apply touches them."""


class StandIn(ProviderServicer):
    """Answers the engine. What waits for the API server runs in threads."""

    @property
    def _kubernetes(self) -> KubernetesProvider:
        return cast(KubernetesProvider, self._provider)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._kubernetes.cancelled.set()
        return empty_pb2.Empty()

    async def CheckConfig(self, request: Any, context: Any) -> proto.CheckResponse:
        found = problems(plain_map(values(request.news)))
        failures = [proto.CheckFailure(property=name, reason=why) for name, why in found.items()]
        return proto.CheckResponse(inputs=request.news, failures=failures)

    async def DiffConfig(self, request: Any, context: Any) -> proto.DiffResponse:
        old = request.old_inputs if request.old_inputs.fields else request.olds
        changed, replaces = compare(plain_map(values(old)), plain_map(values(request.news)))
        return proto.DiffResponse(changes=_some(changed), diffs=changed, replaces=replaces)

    async def Configure(self, request: Any, context: Any) -> proto.ConfigureResponse:
        self._kubernetes.configure_with(plain_map(values(request.args)))
        return proto.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    async def Check(self, request: Any, context: Any) -> proto.CheckResponse:
        return proto.CheckResponse(inputs=struct(check(request.urn, values(request.news))))

    async def Diff(self, request: Any, context: Any) -> proto.DiffResponse:
        for path in {*request.ignoreChanges} - _LEFT_OUT:
            raise Unserved(f"ignore_changes for {path}", "leave it out")
        kind, provider = kind_of(request.urn), self._kubernetes
        provider.in_state.add((request.urn, request.id))
        await asyncio.to_thread(provider.warn_if_unreachable, request.urn)
        old, new = to_object(values(request.old_inputs)), to_object(values(request.news))
        found = changes(old, new, kind.fixed_fields)
        return _diff_response(found, same_name=Reference.of_manifest(kind, new).id == request.id)

    async def Create(self, request: Any, context: Any) -> proto.CreateResponse:
        resource = ResourceRequest(request.urn, values(request.properties), timeout=request.timeout)
        if request.preview:
            await asyncio.to_thread(apply.preview, self._kubernetes, resource)
            return proto.CreateResponse(properties=request.properties)
        state = await self._apply(apply.create, resource, context)
        return proto.CreateResponse(id=resource.reference.id, properties=state)

    async def Update(self, request: Any, context: Any) -> proto.UpdateResponse:
        resource = ResourceRequest(
            request.urn,
            values(request.news),
            state=values(request.olds),
            timeout=request.timeout,
        )
        if request.preview:
            await asyncio.to_thread(apply.preview, self._kubernetes, resource)
            return proto.UpdateResponse(properties=request.news)
        return proto.UpdateResponse(properties=await self._apply(apply.update, resource, context))

    async def _apply(
        self,
        change: Callable[[KubernetesProvider, ResourceRequest], Object],
        request: ResourceRequest,
        context: Any,
    ) -> struct_pb2.Struct:
        try:
            live = await asyncio.to_thread(change, self._kubernetes, request)
        except NotReady as failure:
            await _abort_initialization(context, request, failure)
        return struct(request.state_of(live))

    async def Read(self, request: Any, context: Any) -> proto.ReadResponse:
        resource = ResourceRequest(
            request.urn, values(request.inputs), state=values(request.properties)
        )
        self._kubernetes.in_state.add((request.urn, request.id))
        found = await asyncio.to_thread(read, self._kubernetes, resource, request.id)
        if found is None:
            return proto.ReadResponse()
        state, inputs = found
        return proto.ReadResponse(id=request.id, properties=struct(state), inputs=struct(inputs))

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        resource = ResourceRequest(
            request.urn, state=values(request.properties), timeout=request.timeout
        )
        await asyncio.to_thread(apply.delete, self._kubernetes, resource, request.id)
        return empty_pb2.Empty()

    async def Invoke(self, request: Any, context: Any) -> NoReturn:
        raise Unserved(f"the function {request.tok}", "leave it out of the program")

    async def Construct(self, request: Any, context: Any) -> NoReturn:
        raise Unserved(f"the component {request.type}", "declare its objects one by one")

    async def Call(self, request: Any, context: Any) -> NoReturn:
        raise Unserved(f"the method {request.tok}", "leave it out of the program")


def values(message: struct_pb2.Struct) -> dict[str, PropertyValue]:
    """Return the properties in a message."""
    return PropertyValue.unmarshal_map(message)


def struct(properties: Mapping[str, PropertyValue]) -> struct_pb2.Struct:
    """Return properties as a message."""
    return PropertyValue.marshal_map(dict(properties))


def _some(found: list[Any]) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    response = provider_pb2.DiffResponse
    return response.DIFF_SOME if found else response.DIFF_NONE


def _diff_response(found: list[Change], *, same_name: bool) -> proto.DiffResponse:
    replaces = [change.path for change in found if change.replace]
    return proto.DiffResponse(
        changes=_some(found),
        replaces=replaces,
        # Two objects of one name can't exist beside each other.
        deleteBeforeReplace=bool(replaces) and same_name,
        diffs=sorted({re.split(r"[.\[]", change.path)[0] for change in found}),
        detailedDiff={
            change.path: provider_pb2.PropertyDiff(
                kind=provider_pb2.PropertyDiff.Kind.Value(
                    change.kind.upper() + ("_REPLACE" if change.replace else "")
                ),
                inputDiff=True,
            )
            for change in found
        },
        hasDetailedDiff=True,
    )


async def _abort_initialization(
    context: Any, request: ResourceRequest, failure: NotReady
) -> NoReturn:
    """End a request so that the engine keeps the object that was made but is not ready."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=request.reference.id,
        properties=struct(request.state_of(failure.live)),
        reasons=failure.reasons,
    )
    unknown = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=unknown.value[0], message=str(failure))
    status.details.add().Pack(detail)
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(unknown, str(failure), metadata)
    raise failure  # abort has raised already
