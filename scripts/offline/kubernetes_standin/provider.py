"""The provider: its configuration, as passed to `pulumi_kubernetes.Provider`, and what it holds."""

import threading
from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental import provider as protocol
from pulumi.runtime.proto import engine_pb2_grpc

from core import kube
from infra.provider.engine import EngineContext, plain_map
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.errors import Refusal, Unreachable, Unserved

_IDENTIFIER = "clusterIdentifier"
_ENGINE = frozenset({"version", "pluginDownloadURL"})
"""Settings that the engine adds to every provider's."""
_SERVED = _ENGINE | {_IDENTIFIER, "deleteUnreachable", "kubeconfig"}
_OFF = (None, "", False, "false")
"""Values by which a setting is as if left out; the engine passes switches as text, too."""
_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "enableServerSideApply": (None, "", True, "true"),
}


def problems(given: Mapping[str, Any]) -> dict[str, Unserved]:
    """Return each setting that is not served, and what to do instead."""
    found = {
        name: Unserved(f"the setting {name}", "remove it, and unset its PULUMI_K8S_ variable")
        for name, value in given.items()
        if name not in _SERVED and value not in _DEFAULTS.get(name, _OFF)
    }
    # Both are missing where the cluster itself has failed, which the engine reports.
    if given.get("kubeconfig") and not given.get(_IDENTIFIER):
        found[_IDENTIFIER] = Unserved(
            f"a provider without {_IDENTIFIER}, which would be replaced with all of its "
            "objects whenever the kubeconfig changes",
            "pass cluster_identifier",
        )
    return found


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return which settings differ, and which of them mean another cluster.

    The latter replaces the provider and every object in it, by the real plugin's rules.
    """
    changed = [name for name in sorted({*old, *new} - _ENGINE) if old.get(name) != new.get(name)]
    return changed, [name for name in changed if name == _IDENTIFIER and name in old]


class KubernetesProvider(protocol.Provider):
    """One configured provider; safe to share between the engine's requests."""

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._probed = False
        self._kubeconfig = ""
        self._cancelled = threading.Event()
        self.delete_unreachable = False
        """Whether objects of a cluster that does not answer leave the state."""
        self.in_state: set[tuple[str, str]] = set()
        """URN and id of each object that the state is known to have."""

    async def check_config(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        found = problems(plain_map(request.new_inputs))
        failures = [protocol.CheckFailure(name, str(why)) for name, why in found.items()]
        return protocol.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        given = plain_map(request.args)
        self._kubeconfig = str(given.get("kubeconfig") or "")
        unreachable = given.get("deleteUnreachable")
        # A destroy takes the configuration from the state, so it looks at the variable itself.
        self.delete_unreachable = (
            kube.may_be_gone() if unreachable is None else unreachable not in _OFF
        )
        return protocol.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def cancel(self) -> None:
        self._cancelled.set()

    def context(self, urn: str) -> EngineContext:
        """Return the way to the row of the resource `urn`."""
        return EngineContext(self._engine, urn, self._cancelled)

    def client(self) -> Client:
        """Return the connection to the cluster.

        Raises:
            Unreachable: the kubeconfig can't be used.
        """
        with self._lock:
            if self._client is None:
                self._client = Client(self._kubeconfig)
            return self._client

    def warn_if_unreachable(self, urn: str) -> None:
        """Report once, on the row of `urn`, that an unreachable cluster prevents all checks."""
        with self._lock:
            probed, self._probed = self._probed, True
        if probed:
            return
        try:
            self.client().ask(kube.Request("GET", "/version"))
        except Unreachable as error:
            self.context(urn).warn(f"{error}; nothing is checked against it")
        except Refusal:
            pass  # It answers.
