"""Entry point of the stub; the engine's address is its first argument."""

from scripts.offline.azure_native.provider import PreviewStub, run

run(PreviewStub, "stub")
