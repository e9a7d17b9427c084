"""Kubeconfigs as the provider takes them: their content, or the path of a file."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException
from kubernetes.config.kube_config import KubeConfigLoader

_FILES = ("certificate-authority", "client-certificate", "client-key")
_CONNECTIONS = 64


@dataclass(frozen=True)
class Kubeconfig:
    """A kubeconfig and the context in it that is meant.

    Raises:
        ValueError: the kubeconfig is unreadable or has no such context.
    """

    document: Mapping[str, Any]
    context: str

    @classmethod
    def load(
        cls, content_or_path: str, context: str | None = None, cluster: str | None = None
    ) -> "Kubeconfig":
        """Read a kubeconfig and choose its context, `current-context` unless said otherwise."""
        text, folder = _read(content_or_path or _default_path())
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f" in line {mark.line + 1}"
            raise ValueError(f"the kubeconfig is no valid YAML{where}") from None
        if not isinstance(document, dict) or "contexts" not in document:
            raise ValueError(
                "the kubeconfig has no contexts; pass the content of a kubeconfig or its path"
            )
        for entry in (*(document.get("clusters") or ()), *(document.get("users") or ())):
            _in_place(entry.get("cluster") or entry.get("user") or {}, folder)
        name = context or document.get("current-context") or ""
        contexts = {item["name"]: item.get("context") or {} for item in document["contexts"]}
        if name not in contexts:
            raise ValueError(
                f"the kubeconfig has no context {name!r}; there are: {', '.join(contexts)}"
            )
        if cluster is not None:
            contexts[name]["cluster"] = cluster
        return cls(document, name)

    @property
    def namespace(self) -> str:
        """The namespace for objects that give none."""
        return str(self._context.get("namespace") or "default")

    @property
    def active_cluster(self) -> object:
        """The cluster entry that the context points to, None when there is none."""
        wanted = self._context.get("cluster")
        clusters = self.document.get("clusters") or ()
        return next((item.get("cluster") for item in clusters if item["name"] == wanted), None)

    @property
    def _context(self) -> Mapping[str, Any]:
        return next(
            item.get("context") or {}
            for item in self.document["contexts"]
            if item["name"] == self.context
        )

    def client_configuration(self) -> Configuration:
        """Return the client's configuration.

        Raises:
            ValueError: a cluster, user or certificate that the context needs is missing.
        """
        configuration = Configuration()
        try:
            loader: Any = KubeConfigLoader  # it has no types of its own
            loader(_in_memory(self.document), active_context=self.context).load_and_set(
                configuration
            )
        except ConfigException as error:
            raise ValueError(f"the kubeconfig can't be used: {error}") from None
        configuration.connection_pool_maxsize = _CONNECTIONS
        configuration.retries = urllib3.Retry(1)
        return configuration


def _default_path() -> str:
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return named or str(Path.home() / ".kube" / "config")


def _read(content_or_path: str) -> tuple[str, Path]:
    if "\n" in content_or_path or content_or_path.lstrip().startswith("{"):
        return content_or_path, Path()
    path = Path(content_or_path).expanduser()
    try:
        return path.read_text(), path.parent
    except OSError as error:
        raise ValueError(f"the kubeconfig {path} can't be read: {error.strerror}") from None


def _in_place(entry: dict[str, Any], folder: Path) -> None:
    """Make the paths in `entry`, which count from the kubeconfig's own folder, absolute."""
    for name in _FILES:
        if name in entry:
            entry[name] = str((folder / entry[name]).absolute())


def _in_memory(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return `document` with its embedded keys in files that exist in this process alone.

    The client's library would write them under /tmp, where they stay when the engine is killed.
    """
    parts: dict[str, Any] = dict(document)
    for section, part in (("clusters", "cluster"), ("users", "user")):
        parts[section] = [
            {**item, part: _entry_in_memory(item.get(part) or {})}
            for item in document.get(section) or ()
        ]
    return parts


def _entry_in_memory(entry: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in entry.items() if key.removesuffix("-data") not in _FILES}
    for name in _FILES:
        data = entry.get(f"{name}-data")
        if data:
            descriptor = os.memfd_create(name)
            os.write(descriptor, base64.b64decode(data))
            kept[name] = f"/proc/self/fd/{descriptor}"
        elif name in entry:
            kept[name] = entry[name]
    return kept
