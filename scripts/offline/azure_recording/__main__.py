"""Entry point of the double; the engine's address is its first argument."""

import sys

from pulumi.runtime.proto import engine_pb2_grpc

from core.context import connect
from core.paths import use_extra
from infra.provider.server import exit_with, serve
from scripts.offline.azure_recording.sdk import sdk_version
from scripts.offline.azure_recording.servicer import Double
from scripts.offline.azure_recording.session import Session


def main() -> None:
    """Serve until the engine goes away."""
    use_extra("azure")
    address = next(argument for argument in sys.argv[1:] if not argument.startswith("-"))
    channel = connect(address)
    exit_with(channel)
    engine = engine_pb2_grpc.EngineStub(channel)
    serve(Session(engine), address, f"{sdk_version()}+recording", Double)


main()
