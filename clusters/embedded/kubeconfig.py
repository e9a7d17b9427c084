"""Kubeconfigs: for the cluster's own components, and the one that the cluster hands out."""

import base64
from pathlib import Path
from typing import Any

import yaml

from clusters.embedded.layout import Layout


def path(layout: Layout, user: str) -> Path:
    """Where the kubeconfig of one component is kept."""
    return layout.config / f"{user}.kubeconfig"


def by_reference(layout: Layout, user: str) -> str:
    """A kubeconfig that names the user's certificate and key by path."""
    cluster = {"certificate-authority": str(layout.certificate("ca"))}
    credentials = {
        "client-certificate": str(layout.certificate(user)),
        "client-key": str(layout.key(user)),
    }
    return _document(layout, user, cluster, credentials)


def embedded(layout: Layout, user: str) -> str:
    """A kubeconfig that works anywhere on this machine, with the key in it: a secret."""
    cluster = {"certificate-authority-data": _base64(layout.certificate("ca"))}
    credentials = {
        "client-certificate-data": _base64(layout.certificate(user)),
        "client-key-data": _base64(layout.key(user)),
    }
    return _document(layout, user, cluster, credentials)


def _document(
    layout: Layout, user: str, cluster: dict[str, str], credentials: dict[str, str]
) -> str:
    name = layout.node
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": layout.api_url, **cluster}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return yaml.safe_dump(document, sort_keys=False)


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
