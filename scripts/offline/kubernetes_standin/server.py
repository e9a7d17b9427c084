"""The engine's requests to the stand-in. What waits for the API server runs in threads."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2, status_pb2

from infra.provider.engine import plain_map
from infra.provider.provider import response
from scripts.offline.kubernetes_standin.errors import NotReady, Unserved
from scripts.offline.kubernetes_standin.inputs import changes, check
from scripts.offline.kubernetes_standin.kinds import Reference, kind_of
from scripts.offline.kubernetes_standin.manifest import Object, Properties, to_object
from scripts.offline.kubernetes_standin.provider import KubernetesProvider, compare
from scripts.offline.kubernetes_standin.resource import Resource

_LEFT_OUT = frozenset({"webhooks[*].clientConfig.caBundle"})
"""Fields that may be ignored: the program never sets them, so that no apply touches them."""


class StandIn(KubernetesProvider):
    """Serves the objects that this product declares."""

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        return protocol.CheckResponse(check(request.urn, request.new_inputs))

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        """Compare inputs: `Servicer` hands over those of last time as the state."""
        for path in {*request.ignore_changes} - _LEFT_OUT:
            raise Unserved(f"ignore_changes for {path}", "leave it out")
        kind = kind_of(request.urn)
        self.in_state.add((request.urn, request.resource_id))
        await asyncio.to_thread(self.warn_if_unreachable, request.urn)
        old, new = to_object(request.old_state), to_object(request.new_inputs)
        found = response(changes(old, new, kind.fixed_fields))
        # Two objects of one name can't exist beside each other.
        found.delete_before_replace = Reference.of(kind, new).id == request.resource_id
        return found

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        resource = Resource(self, request.urn, request.properties, timeout=request.timeout)
        if request.preview:
            await asyncio.to_thread(resource.preview)
            return protocol.CreateResponse("", request.properties)
        state = await _made(resource.create, resource)
        return protocol.CreateResponse(resource.reference.id, state)

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        resource = Resource(self, request.urn, request.news, request.olds, request.timeout)
        if request.preview:
            await asyncio.to_thread(resource.preview)
            return protocol.UpdateResponse(request.news)
        return protocol.UpdateResponse(await _made(resource.update, resource))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        if not request.inputs:
            raise Unserved(
                f"reading {request.resource_id}, which is not in the state (`pulumi import`, "
                "`.get()`)",
                "declare it",
            )
        self.in_state.add((request.urn, request.resource_id))
        resource = Resource(self, request.urn, request.inputs, request.properties)
        found = await asyncio.to_thread(resource.read)
        if found is None:
            return protocol.ReadResponse("")
        return protocol.ReadResponse(request.resource_id, *found)

    async def delete(self, request: protocol.DeleteRequest) -> None:
        resource = Resource(self, request.urn, state=request.properties, timeout=request.timeout)
        await asyncio.to_thread(resource.delete)

    async def invoke(self, request: protocol.InvokeRequest) -> NoReturn:
        raise Unserved(f"the function {request.tok}", "leave it out of the program")


async def _made(change: Callable[[], Object], resource: Resource) -> Properties:
    """Return the state after a change."""
    try:
        return resource.state_of(await asyncio.to_thread(change))
    except NotReady as failure:
        failure.kept = (resource.reference.id, resource.state_of(failure.live))
        raise


class Servicer(ProviderServicer):
    """Adds to the protocol's SDK what it leaves out.

    These are a resource's old inputs, the error details by which the engine knows that a resource
    was created but is not ready, and a DiffConfig that works.
    """

    async def DiffConfig(self, request: Any, _context: Any) -> proto.DiffResponse:  # noqa: N802
        old, new = (
            plain_map(PropertyValue.unmarshal_map(each))
            for each in (request.old_inputs, request.news)
        )
        changed, replaces = compare(old, new)
        kinds = proto.DiffResponse
        found = kinds.DIFF_SOME if changed else kinds.DIFF_NONE
        return proto.DiffResponse(changes=found, diffs=changed, replaces=replaces)

    async def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        request.olds.CopyFrom(request.old_inputs)
        return await super().Diff(request, context)

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await _unless_not_ready(super().Create(request, context), context)  # type: ignore[no-untyped-call]

    async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        return await _unless_not_ready(super().Update(request, context), context)  # type: ignore[no-untyped-call]

    async def Construct(self, request: Any, context: Any) -> NoReturn:  # noqa: N802
        raise Unserved(f"the component {request.type}", "declare its objects one by one")


async def _unless_not_ready(answer: Awaitable[Any], context: Any) -> Any:
    """Return the answer, or end so that the engine keeps the object that is not ready."""
    try:
        return await answer
    except NotReady as failure:
        made, state = failure.kept
        detail = provider_pb2.ErrorResourceInitFailed(
            id=made, properties=PropertyValue.marshal_map(state), reasons=failure.reasons
        )
        unknown = grpc.StatusCode.UNKNOWN
        status = status_pb2.Status(code=unknown.value[0], message=str(failure))
        status.details.add().Pack(detail)
        metadata = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(unknown, str(failure), metadata)
