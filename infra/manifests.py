"""Kubernetes objects as plain dicts."""

from pathlib import Path
from typing import Any, cast

import yaml

Manifest = dict[str, Any]


def read(path: Path) -> Manifest:
    """Return the one object in the YAML file at `path`."""
    # The C loader: the PyTorchJob CRD has 8,000 lines, and is read on every `up`.
    return cast("Manifest", yaml.load(path.read_text(), Loader=yaml.CSafeLoader))


def restricted_namespace(name: str) -> Manifest:
    """Return a Namespace in which only pods of Pod Security's level `restricted` may run."""
    # https://kubernetes.io/docs/concepts/security/pod-security-admission/
    labels = {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
