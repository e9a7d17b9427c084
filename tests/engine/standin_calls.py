"""The stand-in plugin in this process, asked as the engine asks it, without the CLI."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from google.protobuf import struct_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, status_pb2

from infra.provider.engine import plain_map, wrap_map
from scripts.offline.kubernetes_standin.server import Servicer, StandIn


class NotInitialized(Exception):
    """An object was made but is not ready: the engine keeps it in the state, and fails.

    Args:
        resource: What the state keeps of it.
    """

    def __init__(self, urn: str, inputs: struct_pb2.Struct, status: status_pb2.Status) -> None:
        detail = provider_pb2.ErrorResourceInitFailed()
        status.details[0].Unpack(detail)
        super().__init__("\n".join(detail.reasons))
        self.resource = Resource(urn, detail.id, inputs, detail.properties)


@dataclass(frozen=True)
class Resource:
    """An object, as a stack's state has it."""

    urn: str
    id: str
    inputs: struct_pb2.Struct
    state: struct_pb2.Struct

    @property
    def live(self) -> dict[str, Any]:
        """The object, as it was last seen."""
        return plain_map(PropertyValue.unmarshal_map(self.state))


@dataclass
class Plugin:
    """One run of the plugin.

    Args:
        kubeconfig: The cluster's.
        messages: What it reported on the rows of `pulumi up`.
    """

    kubeconfig: str = field(repr=False)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        provider = StandIn(cast(engine_pb2_grpc.EngineStub, self))
        self._servicer = Servicer([], "", provider, engine_address="")
        args = _message({"kubeconfig": self.kubeconfig})
        self._ask(self._servicer.Configure, provider_pb2.ConfigureRequest(args=args))

    def Log(self, request: engine_pb2.LogRequest) -> None:  # noqa: N802  # the protocol's own
        """Record what the plugin reports to the engine."""
        self.messages.append(request.message)

    def preview(self, manifest: Mapping[str, Any]) -> None:
        """Preview the making of an object.

        Raises:
            Exception: as the plugin refuses.
        """
        urn, inputs = self._checked(manifest, None)
        self._ask(
            self._servicer.Create,
            provider_pb2.CreateRequest(urn=urn, properties=inputs, preview=True),
        )

    def up(
        self, manifest: Mapping[str, Any], resource: Resource | None = None, timeout: float = 0
    ) -> Resource:
        """Make an object, or change the one that the state has in place.

        Raises:
            NotInitialized: it is there, but not ready.
            Exception: as the plugin refuses.
        """
        urn, inputs = self._checked(manifest, resource)
        if resource is None:
            request = provider_pb2.CreateRequest(urn=urn, properties=inputs, timeout=timeout)
            made = self._ask(self._servicer.Create, request, inputs)
            return Resource(urn, made.id, inputs, made.properties)
        request = provider_pb2.UpdateRequest(**_of(resource), news=inputs, timeout=timeout)
        changed = self._ask(self._servicer.Update, request, inputs)
        return Resource(urn, resource.id, inputs, changed.properties)

    def changes(self, manifest: Mapping[str, Any], resource: Resource) -> list[str]:
        """Return the paths of what differs from the state."""
        _, inputs = self._checked(manifest, resource)
        request = provider_pb2.DiffRequest(**_of(resource), news=inputs)
        return list(self._ask(self._servicer.Diff, request).detailedDiff)

    def delete(self, resource: Resource, timeout: float = 0) -> None:
        """Delete an object.

        Raises:
            Exception: as the plugin refuses, or because the object stays.
        """
        request = provider_pb2.DeleteRequest(
            urn=resource.urn, id=resource.id, properties=resource.state, timeout=timeout
        )
        self._ask(self._servicer.Delete, request)

    def _checked(
        self, manifest: Mapping[str, Any], resource: Resource | None
    ) -> tuple[str, struct_pb2.Struct]:
        name = manifest["metadata"]["name"]
        urn = f"urn:pulumi:test::standin::{_type(manifest)}::{name}"
        request = provider_pb2.CheckRequest(
            urn=urn,
            olds=None if resource is None else resource.inputs,
            news=_message(manifest),
        )
        return urn, self._ask(self._servicer.Check, request).inputs

    def _ask(
        self,
        method: Callable[[Any, Any], Coroutine[Any, Any, Any]],
        request: Any,
        inputs: struct_pb2.Struct | None = None,
    ) -> Any:
        return asyncio.run(method(request, _Call(getattr(request, "urn", ""), inputs)))


@dataclass(frozen=True)
class _Call:
    """The protocol's side of one request."""

    urn: str
    inputs: struct_pb2.Struct | None

    async def abort(self, _code: object, _message: str, metadata: Any) -> NoReturn:
        ((_, status),) = metadata
        assert self.inputs is not None
        raise NotInitialized(self.urn, self.inputs, status_pb2.Status.FromString(status))


def _of(resource: Resource) -> dict[str, Any]:
    return {
        "urn": resource.urn,
        "id": resource.id,
        "olds": resource.state,
        "old_inputs": resource.inputs,
    }


def _type(manifest: Mapping[str, Any]) -> str:
    """Return the SDK's token for an object's kind, such as kubernetes:core/v1:ConfigMap."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return f"kubernetes:{group or 'core'}/{version}:{manifest['kind']}"


def _message(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    return PropertyValue.marshal_map(wrap_map(properties))
