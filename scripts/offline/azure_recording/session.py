"""What one run of the plugin holds on to: its configuration, the engine, what it records in."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.provider import Provider
from pulumi.runtime.proto import engine_pb2_grpc

from core.context import EngineContext
from scripts.offline.azure_recording.recording import Recording
from scripts.offline.azure_recording.sdk import sdk_version

NOBODYS = "00000000-0000-0000-0000-000000000000"
"""The subscription where none is said."""


class NoAzure(Exception):
    """Something was to be done on Azure, and there is none behind the double."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} needs Azure, and this is Slipway's recording double of azure-native's plugin, "
            'which serves previews only. Install the real one: `eval "$(make -s env)" && pulumi '
            f"plugin install resource azure-native {sdk_version()}`; and log in with `az login`"
        )


class Session(Provider):
    """One configured provider; safe to share between the engine's requests."""

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._said = False
        self.cancelled = threading.Event()
        self.configuration: dict[str, Any] = {}
        self.recording = Recording.lent()

    @property
    def subscription(self) -> str:
        """In which everything is."""
        told = self.configuration.get("subscriptionId") or os.environ.get("ARM_SUBSCRIPTION_ID")
        return str(told or NOBODYS)

    def configure_with(self, given: Mapping[str, Any]) -> None:
        """Take over the provider's configuration."""
        self.configuration = dict(given)
        if self.recording is not None:
            # Imported late, with the client for Kubernetes: a preview has no use for either.
            from scripts.offline.azure_recording.autoscaler import Autoscaler  # noqa: PLC0415

            Autoscaler(self.recording).start()

    def introduce(self) -> None:
        """Say once what this is."""
        with self._lock:
            first, self._said = not self._said, True
        if first:
            self.context("").warn(
                "Azure is not asked: this is Slipway's recording double of azure-native's plugin. "
                "It checks what is declared against the SDK's types and the services' documented "
                "rules; quotas, prices and what is there already only Azure knows. `up` takes the "
                "plugin itself, which could not be downloaded here."
            )

    def context(self, urn: str) -> EngineContext:
        """Return the way to the row of the resource `urn`; of the stack where it is empty."""
        return EngineContext(self._engine, urn, self.cancelled)

    def lent(self, what: str) -> Recording:
        """Return where to record.

        Raises:
            NoAzure: outside of tests.
        """
        if self.recording is None:
            raise NoAzure(what)
        return self.recording
