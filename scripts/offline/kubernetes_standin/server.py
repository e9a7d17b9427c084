"""The engine's requests to the stand-in. What waits for the API server runs in threads."""

import asyncio
import threading
from collections.abc import Awaitable, Mapping
from typing import Any, NoReturn

import grpc
from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, status_pb2

from core import kube
from infra.provider.engine import EngineContext, plain_map
from infra.provider.provider import response
from scripts.offline.kubernetes_standin.client import Client, Refusal, Unreachable
from scripts.offline.kubernetes_standin.kinds import Reference, Unserved, kind_of
from scripts.offline.kubernetes_standin.manifest import changes, check, to_object
from scripts.offline.kubernetes_standin.resource import Resource
from scripts.offline.kubernetes_standin.wait import NotReady

_LEFT_OUT = frozenset({"webhooks[*].clientConfig.caBundle"})
"""Fields that may be ignored: the program never sets them, so that no apply touches them."""
_IDENTIFIER = "clusterIdentifier"
_ENGINE = frozenset({"version", "pluginDownloadURL"})
"""Settings that the engine adds to every provider's."""
_SERVED = _ENGINE | {_IDENTIFIER, "deleteUnreachable", "kubeconfig"}
_OFF = (None, "", False, "false")
"""Values by which a setting is as if left out; the engine passes switches as text, too."""
_SERVER_SIDE_APPLY = {"enableServerSideApply": (None, "", True, "true")}
"""The one setting that is on where it is left out, and what it may be."""


def problems(given: Mapping[str, Any]) -> dict[str, Unserved]:
    """Return each setting that is not served, and what to do instead."""
    found = {
        name: Unserved(f"the setting {name}", "remove it, and unset its PULUMI_K8S_ variable")
        for name, value in given.items()
        if name not in _SERVED and value not in _SERVER_SIDE_APPLY.get(name, _OFF)
    }
    # Both are missing where the cluster itself has failed, which the engine reports.
    if given.get("kubeconfig") and not given.get(_IDENTIFIER):
        found[_IDENTIFIER] = Unserved(
            f"a provider without {_IDENTIFIER}, which would be replaced with all of its "
            "objects whenever the kubeconfig changes",
            "pass cluster_identifier",
        )
    return found


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return which settings differ, and which of them mean another cluster.

    The latter replaces the provider and every object in it, by the real plugin's rules.
    """
    changed = [name for name in sorted({*old, *new} - _ENGINE) if old.get(name) != new.get(name)]
    return changed, [name for name in changed if name == _IDENTIFIER and name in old]


class StandIn(protocol.Provider):
    """Serves the objects that this product declares; safe to share between the engine's requests.

    Its configuration is what the program passes to `pulumi_kubernetes.Provider`.
    """

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._probed = False
        self._kubeconfig = ""
        self._cancelled = threading.Event()
        self.delete_unreachable = False
        """Whether objects of a cluster that does not answer leave the state."""
        self.in_state: set[tuple[str, str]] = set()
        """URN and id of each object that the state is known to have."""

    async def check_config(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        found = problems(plain_map(request.new_inputs))
        failures = [protocol.CheckFailure(name, str(why)) for name, why in found.items()]
        return protocol.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        given = plain_map(request.args)
        self._kubeconfig = str(given.get("kubeconfig") or "")
        unreachable = given.get("deleteUnreachable")
        # A destroy takes the configuration from the state, so it looks at the variable itself.
        self.delete_unreachable = (
            kube.may_be_gone() if unreachable is None else unreachable not in _OFF
        )
        return protocol.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def cancel(self) -> None:
        self._cancelled.set()

    def context(self, urn: str) -> EngineContext:
        """Return the way to the row of the resource `urn`."""
        return EngineContext(self._engine, urn, self._cancelled)

    def client(self) -> Client:
        """Return the connection to the cluster."""
        with self._lock:
            if self._client is None:
                self._client = Client(self._kubeconfig)
            return self._client

    def warn_if_unreachable(self, urn: str) -> None:
        """Report once, on the row of `urn`, that an unreachable cluster prevents all checks."""
        with self._lock:
            probed, self._probed = self._probed, True
        if probed:
            return
        try:
            self.client().ask(kube.Request("GET", "/version"))
        except Unreachable as error:
            self.context(urn).warn(f"{error}; nothing is checked against it")
        except Refusal:
            pass  # It answers.

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
        found = response(changes(old, new, kind.fixed))
        # Two objects of one name can't exist beside each other.
        found.delete_before_replace = Reference.of(kind, new).id == request.resource_id
        return found

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        resource = Resource(self, request.urn, request.properties, timeout=request.timeout)
        if request.preview:
            await asyncio.to_thread(resource.preview)
            return protocol.CreateResponse("", request.properties)
        state = await asyncio.to_thread(resource.create)
        return protocol.CreateResponse(resource.reference.id, state)

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        resource = Resource(self, request.urn, request.news, request.olds, request.timeout)
        if request.preview:
            await asyncio.to_thread(resource.preview)
            return protocol.UpdateResponse(request.news)
        return protocol.UpdateResponse(await asyncio.to_thread(resource.update))

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
        state = PropertyValue.marshal_map(dict(failure.state))
        detail = provider_pb2.ErrorResourceInitFailed(
            id=failure.id, properties=state, reasons=failure.reasons
        )
        unknown = grpc.StatusCode.UNKNOWN
        status = status_pb2.Status(code=unknown.value[0], message=str(failure))
        status.details.add().Pack(detail)
        metadata = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(unknown, str(failure), metadata)
