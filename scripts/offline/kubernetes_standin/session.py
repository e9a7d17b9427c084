"""What one run of the plugin holds on to: its configuration, the cluster, the engine."""

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.provider import Provider
from pulumi.runtime.proto import engine_pb2_grpc

from core.context import EngineContext
from scripts.offline.kubernetes_standin.cluster import Cluster
from scripts.offline.kubernetes_standin.connection import Connection
from scripts.offline.kubernetes_standin.settings import Settings
from scripts.offline.kubernetes_standin.transport import Unreachable


class Session(Provider):
    """One configured provider; safe to share between the engine's requests."""

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._names: dict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()
        self._warned = False
        self.cancelled = threading.Event()
        self.settings = Settings()
        self.connection = Connection(self.settings)

    def configure_with(self, given: Mapping[str, Any]) -> None:
        """Take over the provider's configuration."""
        self.settings = Settings.of(given)
        self.connection = Connection(self.settings)

    def context(self, urn: str) -> EngineContext:
        """Return the way to the row of the resource `urn`."""
        return EngineContext(self._engine, urn, self.cancelled)

    def reachable_cluster(self, urn: str) -> Cluster | None:
        """Return the cluster, or None after one warning when it can't be reached."""
        try:
            return self.connection.cluster()
        except Unreachable as error:
            with self._lock:
                first, self._warned = not self._warned, True
            if first:
                self.context(urn).warn(f"{error}; nothing is checked against it")
            return None

    def remember(self, urn: str, name: str) -> None:
        """Note that the state has an object `name` for the resource `urn`."""
        with self._lock:
            self._names[urn].add(name)

    def known_names(self, urn: str) -> frozenset[str]:
        """Return the names of the objects that the state has for the resource `urn`."""
        with self._lock:
            return frozenset(self._names[urn])
