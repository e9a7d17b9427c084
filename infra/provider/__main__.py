"""Entry point of `pulumi-resource-slipway`; the engine's address is its first argument."""

import sys

from pulumi.runtime.proto import engine_pb2_grpc

from infra.provider.engine import connect
from infra.provider.provider import SlipwayProvider
from infra.provider.resources import Handlers
from infra.provider.server import exit_with, serve

VERSION = "0.1.0"


def main() -> None:
    """Serve until the engine ends."""
    address = next(argument for argument in sys.argv[1:] if not argument.startswith("-"))
    channel = connect(address)
    exit_with(channel)
    serve(SlipwayProvider(Handlers(), engine_pb2_grpc.EngineStub(channel)), address, VERSION)


main()
