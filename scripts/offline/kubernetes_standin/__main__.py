"""Entry point of the stand-in plugin; the engine's address is its first argument."""

import sys

from pulumi.runtime.proto import engine_pb2_grpc

from infra.provider.engine import connect
from infra.provider.server import exit_with, serve
from scripts.offline.kubernetes_standin.errors import SDK_VERSION
from scripts.offline.kubernetes_standin.provider import KubernetesProvider
from scripts.offline.kubernetes_standin.server import StandIn


def main() -> None:
    """Serve until the engine goes away."""
    address = next(argument for argument in sys.argv[1:] if not argument.startswith("-"))
    channel = connect(address)
    exit_with(channel)
    engine = engine_pb2_grpc.EngineStub(channel)
    serve(KubernetesProvider(engine), address, f"{SDK_VERSION}+standin", StandIn)


main()
