"""Serve a provider to the Pulumi engine, and end when the engine does.

`pulumi.provider.experimental` has the servicer; what it lacks is added here: an error is
shown as its own text (it would arrive as `Unexpected <class ...>`), handlers may block,
and a plugin whose engine was killed ends at once, so that no create goes on unseen.
"""

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
from pulumi.provider.experimental.provider import Provider
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2_grpc

# The engine's own limit for one message (sdk/go/common/util/rpcutil); state can be large.
_OPTIONS = [("grpc.max_receive_message_length", 400 << 20)]
_PARALLEL_RESOURCES = 64
_LOOKS = ("CheckConfig", "DiffConfig", "Configure", "Check", "Diff", "Read", "Invoke")
_CHANGES = ("Create", "Update", "Delete")


class Servicer(ProviderServicer):
    """The SDK's servicer with errors that read as they were written."""


def _with_plain_errors(name: str) -> Any:
    original = getattr(ProviderServicer, name)

    async def method(self: Servicer, request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await original(self, request, context)
        except Exception as error:
            if os.environ.get("SLIPWAY_TRACEBACK") is not None:
                raise
            await context.abort(grpc.StatusCode.UNKNOWN, str(error) or repr(error))

    return method


for _name in (*_LOOKS, *_CHANGES):
    setattr(Servicer, _name, _with_plain_errors(_name))


def exit_with(channel: grpc.Channel) -> None:
    """End this process once `channel`, the connection to the engine, is lost."""
    connected = threading.Event()

    def watch(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            connected.set()
        elif connected.is_set() and state is not grpc.ChannelConnectivity.CONNECTING:
            # No cleanup: whatever is half done is adopted by the next run.
            os._exit(1)

    channel.subscribe(watch, try_to_connect=True)


def serve(provider: Provider, engine_address: str, version: str) -> None:
    """Serve `provider` on a free loopback port, printed on stdout as the engine expects."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_PARALLEL_RESOURCES))
        server = grpc.aio.server(options=_OPTIONS)
        servicer = Servicer([], version, provider, engine_address=engine_address)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await server.wait_for_termination()

    asyncio.run(run())
