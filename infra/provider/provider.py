"""The engine's protocol on one side, `Handler`s on the other."""

import asyncio
import threading
from collections.abc import Mapping

from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import engine_pb2_grpc

from core.context import Context, Silence
from core.handler import Change, Handler, Properties
from infra.provider.engine import EngineContext, plain_map, wrap_map

_KINDS = {
    ("add", False): protocol.PropertyDiffKind.ADD,
    ("add", True): protocol.PropertyDiffKind.ADD_REPLACE,
    ("update", False): protocol.PropertyDiffKind.UPDATE,
    ("update", True): protocol.PropertyDiffKind.UPDATE_REPLACE,
    ("delete", False): protocol.PropertyDiffKind.DELETE,
    ("delete", True): protocol.PropertyDiffKind.DELETE_REPLACE,
}


class SlipwayProvider(protocol.Provider):
    """Hands each request to the handler of the resource's type.

    Raises:
        LookupError: a resource type that no handler serves.
    """

    def __init__(self, handlers: Mapping[str, Handler], engine: engine_pb2_grpc.EngineStub) -> None:
        self._handlers = handlers
        self._engine = engine
        self._cancelled = threading.Event()
        self._printed: set[tuple[str, str]] = set()
        self._refreshed: set[str] = set()
        self._passing: dict[str, dict[str, PropertyValue]] = {}

    def _handler(self, type_token: str) -> Handler:
        # The SDK reads it from the URN, where a child's type follows its parents': `parent$child`.
        handler = self._handlers.get(type_token.rpartition("$")[2])
        if handler is None:
            raise LookupError(
                f"no resource type {type_token!r}; there are {', '.join(sorted(self._handlers))}"
            )
        return handler

    def _context(self, urn: str) -> EngineContext:
        return EngineContext(self._engine, urn, self._cancelled)

    def _once(self, urn: str) -> EngineContext:
        """Return the context of a call that the engine may repeat in one command."""
        return EngineContext(self._engine, urn, self._cancelled, self._printed)

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        handler = self._handler(request.type)
        failures = handler.check(plain_map(request.new_inputs))
        # The engine stores what a check returns, and sends that with all that follows.
        stored = dict(request.new_inputs)
        passing = handler.passing_inputs & stored.keys()
        self._passing[request.urn] = {key: stored.pop(key) for key in passing}
        return protocol.CheckResponse(
            stored,
            [protocol.CheckFailure(failure.property, failure.reason) for failure in failures],
        )

    def _whole(self, urn: str, inputs: Mapping[str, PropertyValue]) -> Properties:
        """Return the inputs, with those that `check` has kept from the engine."""
        return plain_map({**inputs, **self._passing.get(urn, {})})

    def _of_diff(self, urn: str) -> Context:
        """Return the context for a diff: it reports what an update would do, unlike a refresh."""
        if urn in self._refreshed:
            # The engine calls diff after it has read the resource, to show what has changed.
            self._refreshed.discard(urn)
            return Silence(urn, self._cancelled)
        return self._once(urn)

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        handler = self._handler(request.type)
        changes = await asyncio.to_thread(
            handler.diff,
            request.resource_id,
            plain_map(request.old_state),
            self._whole(request.urn, request.new_inputs),
            self._of_diff(request.urn),
        )
        ignored = tuple(request.ignore_changes)
        return response([change for change in changes if change.path not in ignored])

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        handler = self._handler(request.type)
        if request.preview:
            known = await self._preview(handler, request.urn, None, request.properties)
            return protocol.CreateResponse("", _properties(handler, request.properties, known))
        resource_id, outputs = await asyncio.to_thread(
            handler.create,
            self._whole(request.urn, request.properties),
            self._context(request.urn),
        )
        return protocol.CreateResponse(
            resource_id, _properties(handler, request.properties, outputs)
        )

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        handler = self._handler(request.type)
        state = plain_map(request.olds)
        if request.preview:
            outputs = await self._preview(handler, request.urn, state, request.news)
        else:
            outputs = await asyncio.to_thread(
                handler.update,
                request.resource_id,
                state,
                self._whole(request.urn, request.news),
                self._context(request.urn),
            )
        return protocol.UpdateResponse(_properties(handler, request.news, outputs))

    async def _preview(
        self,
        handler: Handler,
        urn: str,
        state: Properties | None,
        inputs: Mapping[str, PropertyValue],
    ) -> Properties:
        plain, shown = plain_map(inputs), plain_map(inputs, hide_secrets=True)
        return await asyncio.to_thread(handler.preview, state, plain, shown, self._once(urn))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        handler = self._handler(request.type)
        self._refreshed.add(request.urn)
        outputs = await asyncio.to_thread(
            handler.read,
            request.resource_id,
            plain_map(request.properties),
            self._context(request.urn),
        )
        if outputs is None:
            return protocol.ReadResponse("")
        return protocol.ReadResponse(
            request.resource_id, _properties(handler, request.inputs, outputs), request.inputs
        )

    async def delete(self, request: protocol.DeleteRequest) -> None:
        handler = self._handler(request.type)
        await asyncio.to_thread(
            handler.delete,
            request.resource_id,
            plain_map(request.properties),
            self._context(request.urn),
        )

    async def cancel(self) -> None:
        self._cancelled.set()


def _properties(
    handler: Handler, inputs: Mapping[str, PropertyValue], outputs: Properties
) -> dict[str, PropertyValue]:
    """Merge outputs over the inputs as they came, so that a secret input stays secret."""
    return {**inputs, **wrap_map(outputs, handler.secret_outputs)}


def response(changes: list[Change]) -> protocol.DiffResponse:
    """Return what the engine is to know of a resource's changes."""
    return protocol.DiffResponse(
        changes=bool(changes),
        replaces=[change.path for change in changes if change.replace],
        # One PyTorchJob name, one cluster directory: the old has to go before the new can be.
        delete_before_replace=True,
        diffs=[change.path.split(".")[0] for change in changes],
        detailed_diff={
            change.path: protocol.PropertyDiff(
                _KINDS[change.kind, change.replace], input_diff=not change.drift
            )
            for change in changes
        },
    )
