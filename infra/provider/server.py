"""Serve a provider to the Pulumi engine, and exit when the engine does.

Extends the servicer in `pulumi.provider.experimental`: it rejects other users, returns errors
without tracebacks, lets handlers block, and stops when the engine is killed, so that no `create`
continues unnoticed.
"""

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from pulumi.provider.experimental.provider import Provider
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2_grpc

from core.process import printable
from core.wording import as_typed
from infra.provider.engine import complete

# A message contains a complete resource. This is the engine's own limit, in bytes.
_MESSAGE_LIMIT = 400 << 20
_LOST = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class Servicer(ProviderServicer):
    """A servicer that adds the fields that the SDK expects to a component's inputs."""

    async def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's
        for value in request.inputs.fields.values():
            complete(value)
        return await self._construct(request, context)


class Answers(grpc.aio.ServerInterceptor):
    """Returns errors without tracebacks, and rejects requests from other users.

    Other users could otherwise act as root through a plugin that runs as root.
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            if not _is_trusted_in(int(time.monotonic()), context.peer()):
                refusal = "this plugin serves only the user who started it"
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)
            try:
                return await handler.unary_unary(request, context)
            except grpc.aio.AbortError:
                raise
            except NotImplementedError as error:
                # The engine probes optional methods; only this code means "not supported".
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
            except Exception as error:  # noqa: BLE001  # the engine must get an answer
                # The SDK replaces it with a bare Exception, whose text contains a traceback.
                cause = (type(error) is Exception and error.__context__) or error
                text = printable(as_typed(str(cause) or repr(cause)))
                await context.abort(grpc.StatusCode.UNKNOWN, text)

        return grpc.unary_unary_rpc_method_handler(
            answer, handler.request_deserializer, handler.response_serializer
        )


def connect(address: str) -> grpc.Channel:
    """Connect to the engine, and exit this process if the connection fails or is lost.

    The engine listens before it starts a plugin; if it can't be reached, it has been killed.
    """
    # The engine ends plugins with SIGINT. Python's cleanup might wait forever for busy threads.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Never idle: a training run may report nothing for longer than gRPC's 30 minutes, and an idle
    # channel looks the same as an engine that has exited.
    never = ("grpc.client_idle_timeout_ms", 2**31 - 1)
    channel = grpc.insecure_channel(address, options=[never])
    begun = threading.Event()

    def watch(state: grpc.ChannelConnectivity) -> None:
        # Idle again, though READY may not have been seen if the engine was killed at once.
        if state in _LOST or (begun.is_set() and state is grpc.ChannelConnectivity.IDLE):
            # No cleanup: the next run adopts unfinished resources.
            os._exit(1)
        if state is not grpc.ChannelConnectivity.IDLE:
            begun.set()

    channel.subscribe(watch, try_to_connect=True)
    return channel


def serve(
    make: Callable[[engine_pb2_grpc.EngineStub], Provider],
    version: str,
    servicer_class: type[ProviderServicer] = Servicer,
) -> None:
    """Serve the provider that `make` creates, on a free port that is printed for the engine."""
    address = next(argument for argument in sys.argv[1:] if not argument.startswith("-"))
    # Keep a reference: a garbage-collected channel would no longer be watched.
    channel = connect(address)
    provider = make(engine_pb2_grpc.EngineStub(channel))

    async def run() -> None:
        # No limit: a component's child keeps a thread until the engine created it by another one.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(sys.maxsize))
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", _MESSAGE_LIMIT),
                ("grpc.max_send_message_length", _MESSAGE_LIMIT),
            ],
            interceptors=[Answers()],
        )
        servicer = servicer_class([], version, provider, engine_address=address)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await server.wait_for_termination()

    asyncio.run(run())


@lru_cache(maxsize=16)
def _is_trusted_in(_second: int, peer: str) -> bool:
    """Return `is_trusted(peer)`, cached for a second, because the check is slow.

    Without the cache, it takes a fifth of a preview's time. Within a second, the engine's port
    can't pass to another user.
    """
    return is_trusted(peer)


def is_trusted(peer: str) -> bool:
    """Return whether a peer, `ipv4:127.0.0.1:40312`, is a process of the same user or of root."""
    if not _TABLES[0].exists():  # macOS has no tables: trust any peer, as other plugins do
        return True
    kind, _, place = peer.partition(":")
    address, _, port = place.rpartition(":")
    # Reading the kernel's table is not atomic: while other connections open and close, an
    # established one may be missing.
    looks = (set(_owners(address, int(port))) for _ in range(3 if kind == "ipv4" else 0))
    owners = next(filter(None, looks), set())
    # The port may have several connections; if any is another user's, that may be the peer.
    return bool(owners) and owners <= {0, os.geteuid()}


def _owners(address: str, port: int) -> Iterator[int]:
    """Yield the user ID of the owner of each connected socket with this local address."""
    # proc(5), /proc/net/tcp: the address is a number in the machine's byte order.
    local = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"
    for table in _TABLES:
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            # 01: established. A closed socket has no owner, and is listed as root's.
            if fields[1].endswith(local) and fields[3] == "01":
                yield int(fields[7])
