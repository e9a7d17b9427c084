"""The provider's own configuration: what a program gives to `pulumi_kubernetes.Provider`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scripts.offline.kubernetes_standin.kubeconfig import Kubeconfig
from scripts.offline.kubernetes_standin.unserved import Unserved

_SERVED = frozenset(
    {
        "cluster",
        "clusterIdentifier",
        "context",
        "deleteUnreachable",
        "enableConfigMapMutable",
        "enablePatchForce",
        "enableSecretMutable",
        "enableServerSideApply",
        "kubeconfig",
        "namespace",
        "suppressDeprecationWarnings",
        "suppressHelmHookWarnings",
        "upsertExistingObjects",
    }
)
_INSTEAD = {
    "alwaysRender": "leave it out",
    "helmReleaseSettings": "leave it out: Helm is not served either",
    "kubeClientSettings": "leave it out",
    "renderYamlToDirectory": "leave it out: objects are made on the cluster",
    "skipUpdateUnreachable": "leave it out",
    "strictMode": "leave it out",
}
# The engine adds these to every provider's configuration.
_ENGINE = frozenset({"version", "pluginDownloadURL"})
_CONNECTION = ("kubeconfig", "context", "cluster")


@dataclass(frozen=True)
class Settings:
    """The configuration, with the defaults of the real plugin."""

    kubeconfig: str = ""
    context: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    delete_unreachable: bool = False
    config_map_mutable: bool = False
    secret_mutable: bool = False
    patch_force: bool = False
    suppress_deprecation_warnings: bool = False
    upsert: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Settings":
        """Read the configuration; what it leaves out comes from the environment."""
        return cls(
            kubeconfig=str(given.get("kubeconfig") or ""),
            context=given.get("context") or None,
            cluster=given.get("cluster") or None,
            namespace=given.get("namespace") or None,
            delete_unreachable=_flag(given, "deleteUnreachable", "DELETE_UNREACHABLE"),
            config_map_mutable=_flag(given, "enableConfigMapMutable", "ENABLE_CONFIGMAP_MUTABLE"),
            secret_mutable=_flag(given, "enableSecretMutable", "ENABLE_SECRET_MUTABLE"),
            patch_force=_flag(given, "enablePatchForce", "ENABLE_PATCH_FORCE"),
            suppress_deprecation_warnings=_flag(
                given, "suppressDeprecationWarnings", "SUPPRESS_DEPRECATION_WARNINGS"
            ),
            upsert=_flag(given, "upsertExistingObjects", "UPSERT_EXISTING_OBJECTS"),
        )


def _flag(given: Mapping[str, Any], name: str, variable: str) -> bool:
    """Return a switch; the engine passes `true` as a boolean or as its text."""
    value = given.get(name)
    if value is None:
        value = os.environ.get(f"PULUMI_K8S_{variable}")
    return value is True or value == "true"


def refused(given: Mapping[str, Any]) -> dict[str, str]:
    """Return each setting that is not served, and why."""
    problems = {}
    for name, value in given.items():
        if name in _ENGINE or value in (None, False, "", "false"):
            continue
        if name not in _SERVED:
            problems[name] = str(Unserved(f"the setting {name}", _INSTEAD.get(name, "remove it")))
    if given.get("enableServerSideApply") in (False, "false"):
        problems["enableServerSideApply"] = str(
            Unserved("enableServerSideApply: false", "leave it out, its default is true")
        )
    return problems


@dataclass(frozen=True)
class ConfigChanges:
    """Which settings differ, and which of them mean another cluster."""

    changed: tuple[str, ...]
    replaces: tuple[str, ...]


def compare(old: Mapping[str, Any], new: Mapping[str, Any], unknown: object) -> ConfigChanges:
    """Return what a new configuration changes, by the real plugin's rules.

    A provider is replaced, and every object in it, when `clusterIdentifier` changes; without
    one, when the cluster that the kubeconfig points to is another one or can't be known yet.
    """
    changed = tuple(
        name
        for name in sorted({*old, *new} - _ENGINE)
        if old.get(name) != new.get(name) or new.get(name) is unknown
    )
    identifier = "clusterIdentifier"
    if identifier in new and old.get(identifier) == new[identifier]:
        return ConfigChanges(changed, ())
    replaces = [identifier] if identifier in changed and identifier in old.keys() & new else []
    connection = [name for name in _CONNECTION if name in changed]
    computed = [name for name in connection if new.get(name) is unknown]
    if computed:
        replaces += computed[:1]
    elif connection and _moved(old, new):
        replaces += connection
    return ConfigChanges(changed, tuple(replaces))


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether both configurations can be read and point to different clusters."""
    clusters = []
    for given in (old, new):
        try:
            loaded = Kubeconfig.load(
                given.get("kubeconfig") or "", given.get("context"), given.get("cluster")
            )
        except ValueError:
            return False
        clusters.append(loaded.active_cluster)
    return None not in clusters and clusters[0] != clusters[1]
