"""Implement the engine's provider protocol with `Handler`s."""

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import engine_pb2_grpc

from core import tokens
from core.context import Context, Silence
from core.handler import Change, Handler, Lazy, Properties
from core.manifests import names_in
from core.paths import CHECKOUT
from infra.provider.engine import EngineContext, plain_map, wrap_map

SCHEMA = CHECKOUT / "sdk/schema.json"
"""The component's schema, for other programs; `python -m tests.docs.package` writes it."""


class SlipwayProvider(protocol.Provider):
    """Passes each request to the handler for its resource type, creating handlers on first use."""

    def __init__(
        self, served: Mapping[str, Callable[[], Handler]], engine: engine_pb2_grpc.EngineStub
    ) -> None:
        self._served = served
        self._handlers: dict[str, Handler] = {}
        self._engine = engine
        self._cancelled = threading.Event()
        self._printed: set[tuple[str, str]] = set()
        self._refreshed: set[str] = set()
        self._passing: dict[str, dict[str, PropertyValue]] = {}
        self._newest: dict[tuple[str, ...], Properties] = {}  # this `up`'s kubeconfigs, by names

    def _handler(self, request: Any) -> Handler:
        # The SDK reads it from the URN, where parents' types precede a child's: `parent$child`.
        token = request.type.rpartition("$")[2]
        if token not in self._served:
            raise LookupError(
                f"no resource type {token!r}; valid types: {', '.join(sorted(self._served))}"
            )
        if token not in self._handlers:
            self._handlers[token] = self._served[token]()
        return self._handlers[token]

    def _context(self, urn: str) -> EngineContext:
        return EngineContext(self._engine, urn, self._cancelled, self._printed)

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        handler = self._handler(request)
        inputs = plain_map(request.new_inputs)
        problems = handler.check(inputs)
        if names := names_in(inputs.get("kubeconfig")):
            self._newest[names] = {"kubeconfig": inputs["kubeconfig"]}
        # The engine stores the inputs that `check` returns, and sends them with later requests.
        stored = dict(request.new_inputs)
        passing = handler.passing_inputs & stored.keys()
        self._passing[request.urn] = {key: stored.pop(key) for key in passing}
        failures = [protocol.CheckFailure(each.key, each.text) for each in problems]
        return protocol.CheckResponse(stored, failures)

    def _whole(self, urn: str, inputs: Mapping[str, PropertyValue]) -> Properties:
        """Return the inputs as plain Python, including those that `check` hid from the engine."""
        return plain_map({**inputs, **self._passing.get(urn, {})})

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        context: Context = self._context(request.urn)
        if request.urn in self._refreshed:
            # During a refresh, the engine calls diff after read, to show changes. Messages about
            # an update do not belong there.
            self._refreshed.discard(request.urn)
            context = Silence(request.urn, self._cancelled)
        inputs = self._whole(request.urn, request.new_inputs)
        changes = await asyncio.to_thread(
            self._handler(request).diff, plain_map(request.old_state), inputs, context
        )
        return response([each for each in changes if each.path not in request.ignore_changes])

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        handler, inputs, created = self._handler(request), request.properties, ""
        if request.preview:
            outputs = await self._preview(request, None, inputs)
        else:
            created, outputs = await asyncio.to_thread(
                handler.create, self._whole(request.urn, inputs), self._context(request.urn)
            )
        return protocol.CreateResponse(created, _properties(handler, inputs, outputs))

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        handler, state = self._handler(request), plain_map(request.olds)
        if request.preview:
            outputs = await self._preview(request, state, request.news)
        else:
            inputs = self._whole(request.urn, request.news)
            context = self._context(request.urn)
            outputs = await asyncio.to_thread(handler.update, state, inputs, context)
        return protocol.UpdateResponse(_properties(handler, request.news, outputs))

    async def _preview(
        self, request: Any, state: Properties | None, inputs: Mapping[str, PropertyValue]
    ) -> Properties:
        preview, context = self._handler(request).preview, self._context(request.urn)
        plain, shown = self._whole(request.urn, inputs), plain_map(inputs, hide_secrets=True)
        return await asyncio.to_thread(preview, state, plain, shown, context)

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        handler, state = self._handler(request), plain_map(request.properties)
        self._refreshed.add(request.urn)
        outputs = await asyncio.to_thread(handler.read, state, self._context(request.urn))
        if outputs is None:
            return protocol.ReadResponse("")
        properties = _properties(handler, request.inputs, outputs)
        return protocol.ReadResponse(request.resource_id, properties, request.inputs)

    async def delete(self, request: protocol.DeleteRequest) -> None:
        state = plain_map(request.properties)
        # The state's credentials may have expired since the last `up`.
        state |= self._newest.get(names_in(state.get("kubeconfig")), {})
        await asyncio.to_thread(self._handler(request).delete, state, self._context(request.urn))

    async def construct(self, request: protocol.ConstructRequest) -> protocol.ConstructResponse:
        if request.resource_type != tokens.TRAINING:
            raise LookupError(f"no component {request.resource_type!r}; use {tokens.TRAINING}")
        make = await asyncio.to_thread(Lazy("infra.component.construct").load)
        answer: protocol.ConstructResponse = await make(request)
        return answer

    async def get_schema(self, request: protocol.GetSchemaRequest) -> protocol.GetSchemaResponse:
        return protocol.GetSchemaResponse(SCHEMA.read_text(encoding="utf-8"))

    async def cancel(self) -> None:
        self._cancelled.set()


def _properties(
    handler: Handler, inputs: Mapping[str, PropertyValue], outputs: Properties
) -> dict[str, PropertyValue]:
    """Merge outputs over the original inputs, so that a secret input stays secret."""
    return {**inputs, **wrap_map(outputs, handler.secret_outputs)}


def response(changes: list[Change]) -> protocol.DiffResponse:
    """Return a resource's changes in the form that the engine's protocol expects."""
    return protocol.DiffResponse(
        changes=bool(changes),
        replaces=[change.path for change in changes if change.replace],
        # The old and the new resource share a name or a directory, so the old one is deleted first.
        delete_before_replace=True,
        diffs=[re.split(r"[.\[]", change.path)[0] for change in changes],
        detailed_diff={each.path: _difference(each) for each in changes},
    )


def _difference(change: Change) -> protocol.PropertyDiff:
    name = f"{change.kind}_replace" if change.replace else change.kind
    kind = protocol.PropertyDiffKind[name.upper()]
    return protocol.PropertyDiff(kind, input_diff=not change.drift)
