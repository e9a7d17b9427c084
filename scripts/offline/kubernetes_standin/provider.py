"""The provider: its configuration, as passed to `pulumi_kubernetes.Provider`, and what it holds."""

import threading
from collections.abc import Mapping
from typing import Any

from pulumi.provider.experimental.provider import Provider
from pulumi.runtime.proto import engine_pb2_grpc

from core import kube
from infra.provider.engine import EngineContext
from scripts.offline.kubernetes_standin.client import Client
from scripts.offline.kubernetes_standin.errors import Refusal, Unreachable, Unserved

_IDENTIFIER = "clusterIdentifier"
_SERVED = frozenset(
    {
        _IDENTIFIER,
        "deleteUnreachable",
        "enablePatchForce",
        "enableServerSideApply",
        "kubeconfig",
        "upsertExistingObjects",
    }
)
# The engine adds these to every provider's configuration.
_ENGINE = frozenset({"version", "pluginDownloadURL"})


def _is_on(value: object) -> bool:
    """Return a switch's value; the engine passes `true` as a boolean or as its text."""
    return value is True or value == "true"


def problems(given: Mapping[str, Any]) -> dict[str, str]:
    """Return each setting that is not served, and what to do instead."""
    found = {
        name: str(Unserved(f"the setting {name}", "remove it, and unset its PULUMI_K8S_ variable"))
        for name, value in given.items()
        if name not in _SERVED | _ENGINE and value not in (None, False, "", "false")
    }
    if given.get("enableServerSideApply") in (False, "false"):
        found["enableServerSideApply"] = str(
            Unserved("enableServerSideApply: false", "leave it out, its default is true")
        )
    # Both are missing where the cluster itself has failed, which the engine reports.
    if given.get("kubeconfig") and not given.get(_IDENTIFIER):
        found[_IDENTIFIER] = str(
            Unserved(
                f"a provider without {_IDENTIFIER}, which would be replaced with all of its "
                "objects whenever the kubeconfig changes",
                "pass cluster_identifier",
            )
        )
    return found


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return which settings differ, and which of them mean another cluster.

    The latter replaces the provider and every object in it, by the real plugin's rules.
    """
    changed = [name for name in sorted({*old, *new} - _ENGINE) if old.get(name) != new.get(name)]
    return changed, [name for name in changed if name == _IDENTIFIER and name in old]


class KubernetesProvider(Provider):
    """One configured provider; safe to share between the engine's requests."""

    def __init__(self, engine: engine_pb2_grpc.EngineStub) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._probed = False
        self._kubeconfig = ""
        self.cancelled = threading.Event()
        self.delete_unreachable = False
        """Whether objects of a cluster that does not answer leave the state."""
        self.patch_force = False
        """Whether fields are taken over from other managers."""
        self.upsert = False
        """Whether objects are taken over that this stack did not make."""
        self.in_state: set[tuple[str, str]] = set()
        """URN and id of each object that the state is known to have."""

    def configure_with(self, given: Mapping[str, Any]) -> None:
        """Take the provider's configuration, as a program or the state has it."""
        self._kubeconfig = str(given.get("kubeconfig") or "")
        unreachable = given.get("deleteUnreachable")
        # A destroy takes the configuration from the state, so it looks at the variable itself.
        self.delete_unreachable = kube.may_be_gone() if unreachable is None else _is_on(unreachable)
        self.patch_force = _is_on(given.get("enablePatchForce"))
        self.upsert = _is_on(given.get("upsertExistingObjects"))

    def context(self, urn: str) -> EngineContext:
        """Return the way to the row of the resource `urn`."""
        return EngineContext(self._engine, urn, self.cancelled)

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
            self.client().request("GET", "/version")
        except Unreachable as error:
            self.context(urn).warn(f"{error}; nothing is checked against it")
        except Refusal:
            pass  # It answers.
