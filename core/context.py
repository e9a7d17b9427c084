"""How a running operation on a resource reports to the user."""

import threading
from dataclasses import dataclass, field
from typing import Protocol

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class Context(Protocol):
    """The row of one resource in `pulumi up`, and whether the user has cancelled it."""

    @property
    def urn(self) -> str:
        """The resource, as the engine names it."""

    @property
    def cancelled(self) -> threading.Event:
        """Set once the user pressed Ctrl-C."""

    def status(self, message: str) -> None:
        """Show `message` on the resource's own row until the next one.

        It has no clock in it, as the row has one. Without a terminal each other message is a line.
        """

    def info(self, message: str) -> None:
        """Print `message` as a line that stays."""

    def warn(self, message: str) -> None:
        """Print `message` as a warning that stays."""


@dataclass
class EngineContext:
    """A `Context` that reports to the Pulumi engine.

    Args:
        engine: Which.
        urn: The resource.
        cancelled: See `Context`.
        printed: Pairs of URN and message that were printed before and are not repeated.

    Raises:
        grpc.RpcError: the engine has gone away.
    """

    engine: engine_pb2_grpc.EngineStub
    urn: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    printed: set[tuple[str, str]] = field(default_factory=set)
    _shown: str | None = None
    """The latest `status`, while the row shows it."""

    def status(self, message: str) -> None:
        if self._shown != message:
            self._shown = message
            self._log(message, engine_pb2.INFO, ephemeral=True)

    def info(self, message: str) -> None:
        self._once(message, engine_pb2.INFO)

    def warn(self, message: str) -> None:
        self._once(message, engine_pb2.WARNING)

    def _once(self, message: str, severity: engine_pb2.LogSeverity.ValueType) -> None:
        if (self.urn, message) not in self.printed:
            self.printed.add((self.urn, message))
            self._shown = None
            self._log(message, severity)

    def _log(
        self, message: str, severity: engine_pb2.LogSeverity.ValueType, *, ephemeral: bool = False
    ) -> None:
        self.engine.Log(
            engine_pb2.LogRequest(
                severity=severity, message=message, urn=self.urn, ephemeral=ephemeral
            )
        )


@dataclass(frozen=True)
class Silence:
    """A `Context` that prints nothing."""

    urn: str
    cancelled: threading.Event

    def status(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warn(self, message: str) -> None: ...


def connect(address: str) -> grpc.Channel:
    """Open the channel to the engine that started this plugin (its first argument)."""
    # Never idle: a training run may have nothing to report for longer than gRPC's 30 minutes,
    # and a channel that fell idle looks the same as an engine that has gone.
    return grpc.insecure_channel(address, options=[("grpc.client_idle_timeout_ms", 2**31 - 1)])
