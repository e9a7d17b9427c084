# ruff: noqa: N802  # the methods bear the protocol's own names
"""The engine's protocol for the stand-in.

Requests are taken as they come rather than through `pulumi.provider.experimental.Provider`,
which leaves out what this plugin needs: a resource's old inputs, the form of an error that
tells the engine "made, but not ready", and a DiffConfig that works.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from google.protobuf import empty_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto

from core.values import UNKNOWN, plain_map, wrap_map
from scripts.offline.kubernetes_standin import settings
from scripts.offline.kubernetes_standin.checking import check, name_of
from scripts.offline.kubernetes_standin.checkpoint import InitFailed, inputs_in
from scripts.offline.kubernetes_standin.decoding import decode
from scripts.offline.kubernetes_standin.kinds import Kind
from scripts.offline.kubernetes_standin.making import create, update
from scripts.offline.kubernetes_standin.manifest import to_object
from scripts.offline.kubernetes_standin.messages import (
    abort_initialization,
    diff_response,
    some,
    struct,
    values,
)
from scripts.offline.kubernetes_standin.naming import generated_name
from scripts.offline.kubernetes_standin.planning import (
    is_namespaced,
    is_same_place,
    plan,
    unready_job,
    without_ignored,
)
from scripts.offline.kubernetes_standin.previewing import preview_create, preview_update
from scripts.offline.kubernetes_standin.reading import read
from scripts.offline.kubernetes_standin.removing import delete
from scripts.offline.kubernetes_standin.secrecy import mask
from scripts.offline.kubernetes_standin.session import Session
from scripts.offline.kubernetes_standin.unserved import Unserved, refuse_component
from scripts.offline.kubernetes_standin.wish import Wish

_DECODE = "kubernetes:yaml:decode"


class StandIn(ProviderServicer):
    """Answers the engine. Methods run in threads, as they wait for the API server."""

    @property
    def _session(self) -> Session:
        return cast(Session, self._provider)

    async def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:
        self._session.cancelled.set()
        return empty_pb2.Empty()

    async def CheckConfig(self, request: Any, context: Any) -> proto.CheckResponse:
        problems = settings.refused(plain_map(values(request.news)))
        return proto.CheckResponse(
            inputs=request.news,
            failures=[
                proto.CheckFailure(property=name, reason=reason)
                for name, reason in problems.items()
            ],
        )

    async def DiffConfig(self, request: Any, context: Any) -> proto.DiffResponse:
        old = request.old_inputs if request.old_inputs.fields else request.olds
        found = settings.compare(plain_map(values(old)), plain_map(values(request.news)), UNKNOWN)
        return proto.DiffResponse(
            changes=some(bool(found.changed)), diffs=found.changed, replaces=found.replaces
        )

    async def Configure(self, request: Any, context: Any) -> proto.ConfigureResponse:
        self._session.configure_with(plain_map(values(request.args)))
        return proto.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, supports_autonaming_configuration=True
        )

    async def Check(self, request: Any, context: Any) -> proto.CheckResponse:
        generated = generated_name(name_of(request.urn), request.randomSeed)
        checked = await asyncio.to_thread(
            check,
            self._session,
            request.urn,
            values(request.olds),
            values(request.news),
            request.autonaming.proposed_name or generated,
        )
        return proto.CheckResponse(inputs=struct(checked))

    async def Diff(self, request: Any, context: Any) -> proto.DiffResponse:
        return await asyncio.to_thread(_diff, self._session, request)

    async def Create(self, request: Any, context: Any) -> proto.CreateResponse:
        wish = Wish(request.urn, values(request.properties), timeout=request.timeout)

        def work() -> proto.CreateResponse:
            if request.preview:
                outputs = preview_create(self._session, wish)
                return proto.CreateResponse(properties=struct(outputs))
            resource_id, state = create(self._session, wish)
            return proto.CreateResponse(id=resource_id, properties=struct(state))

        return cast(proto.CreateResponse, await _answer(work, context, wish.given))

    async def Update(self, request: Any, context: Any) -> proto.UpdateResponse:
        wish = Wish(
            request.urn,
            values(request.news),
            state=values(request.olds),
            ignored=tuple(request.ignoreChanges),
            timeout=request.timeout,
        )

        def work() -> proto.UpdateResponse:
            change = preview_update if request.preview else update
            return proto.UpdateResponse(properties=struct(change(self._session, wish)))

        return cast(proto.UpdateResponse, await _answer(work, context, wish.given, wish.state))

    async def Read(self, request: Any, context: Any) -> proto.ReadResponse:
        state, inputs = values(request.properties), values(request.inputs)

        def work() -> proto.ReadResponse:
            found = read(self._session, request.urn, request.id, state, inputs)
            if found is None:
                return proto.ReadResponse()
            return proto.ReadResponse(
                id=request.id, properties=struct(found.state), inputs=struct(found.inputs)
            )

        return cast(proto.ReadResponse, await _answer(work, context, state, inputs))

    async def Delete(self, request: Any, context: Any) -> empty_pb2.Empty:
        await asyncio.to_thread(
            delete,
            self._session,
            request.urn,
            request.id,
            values(request.properties),
            request.timeout,
        )
        return empty_pb2.Empty()

    async def Invoke(self, request: Any, context: Any) -> proto.InvokeResponse:
        if request.tok != _DECODE:
            raise Unserved(f"the function {request.tok}", "leave it out of the program")
        arguments = plain_map(values(request.args))
        objects = await asyncio.to_thread(self._decode, arguments)
        # `return` is a keyword, so it can't be written as an argument.
        answer: dict[str, Any] = {"return": struct(wrap_map({"result": objects}))}
        return proto.InvokeResponse(**answer)

    def _decode(self, arguments: Mapping[str, Any]) -> list[Any]:
        namespace = arguments.get("defaultNamespace")
        cluster = self._session.reachable_cluster("") if namespace else None
        return decode(str(arguments.get("text") or ""), namespace, cluster)

    async def Construct(self, request: Any, context: Any) -> Any:
        refuse_component(request.type)
        raise Unserved(request.type, "declare its objects one by one")

    async def Call(self, request: Any, context: Any) -> Any:
        raise Unserved(f"the method {request.tok}", "leave it out of the program")

    async def Parameterize(self, request: Any, context: Any) -> Any:
        raise Unserved(
            "types generated from CRDs (Parameterize)",
            "declare them with pulumi_kubernetes.apiextensions.CustomResource",
        )

    async def GetSchema(self, request: Any, context: Any) -> Any:
        raise Unserved("the package's schema", "use an SDK that is installed")


def _diff(session: Session, request: Any) -> proto.DiffResponse:
    state, new = values(request.olds), to_object(values(request.news))
    old = to_object(values(request.old_inputs) or inputs_in(state))
    session.remember(request.urn, request.id.rpartition("/")[2])
    cluster = session.reachable_cluster(request.urn)
    namespaced = is_namespaced(cluster, Kind.of_object(new))
    found = plan(old, new, session.settings, namespaced=namespaced)
    changes = without_ignored(found, request.ignoreChanges)
    unready = None if cluster is None else unready_job(cluster, new, request.id)
    if unready is not None:
        changes.append(unready)
    return diff_response(changes, same_place=is_same_place(new, request.id))


async def _answer(
    work: Callable[[], object], context: Any, *secrets: Mapping[str, PropertyValue]
) -> object:
    """Return what `work` returns; its errors reach the person without the values in `secrets`."""
    try:
        return await asyncio.to_thread(work)
    except InitFailed as failure:
        await abort_initialization(context, failure, secrets)
    except Exception as error:
        masked = mask(str(error), *secrets)
        if masked == str(error):
            raise
        raise RuntimeError(masked) from None
