"""Kubernetes objects as dicts: read them from YAML, mark them with their stack, inspect them."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, cast
from urllib.parse import unquote

import yaml

from core.paths import BACKEND_ID

Manifest = dict[str, Any]

MANAGED_BY = {"app.kubernetes.io/managed-by": "slipway"}
"""The label on all objects that Slipway creates."""
KEPT = "slipway.dev/kept"
"""The annotation on a PersistentVolumeClaim that is kept when its job is deleted."""
KEPT_CLAIM = "slipway-kept"
"""The name of the claim that keeps files from a stack's jobs, and of the claim's volume in pods."""
KEPT_DIRECTORY = "/opt/kept"
"""The path where pods mount the volume `KEPT_CLAIM`."""
MADE_BY = "slipway.dev/stack"
"""The annotation that names an object's stack, even if `up` was killed before saving its state."""
BACKEND = "slipway.dev/backend"
"""The annotation with the ID of the stack's backend, as another person's may have a stack of that
name. Backends other than Slipway's have no ID: those who share one can't use a name twice."""
_RELEASE = """--type=merge --patch='{"metadata":{"finalizers":null}}'"""


def read(path: Path) -> Manifest:
    """Return the only object in the YAML file at `path`."""
    # The C loader is faster: the PyTorchJob CRD is 8,000 lines and is read on every `up`.
    return cast("Manifest", yaml.load(path.read_text(), Loader=yaml.CSafeLoader))


def rendered(path: Path, **names: str) -> list[Manifest]:
    """Return the objects in the YAML file at `path`, with each `$name` replaced by an argument."""
    return [*yaml.load_all(Template(path.read_text()).substitute(names), Loader=yaml.CSafeLoader)]


def names_in(kubeconfig: object) -> tuple[str, ...]:
    """Return the server, user and context in a kubeconfig of Slipway's; empty if it is unknown."""
    return tuple(re.findall(r"[\s{](?:server|user|current-context): (\S+)", str(kubeconfig)))


def restricted_namespace(name: str) -> Manifest:
    """Return a Namespace that admits only pods at the Pod Security level `restricted`."""
    # https://kubernetes.io/docs/concepts/security/pod-security-admission/
    labels = {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def owned(kind: str, name: str, namespace: str) -> Manifest:
    """Return the common fields of a manifest in the core API: apiVersion, kind and metadata."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(MANAGED_BY)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def stack() -> str:
    """Return the current stack's name, as `PROJECT/STACK`, for the annotation `MADE_BY`."""
    import pulumi  # noqa: PLC0415 - only a program has a stack, and the import is slow

    return called(pulumi.get_project(), pulumi.get_stack())


def called(project: str, name: str) -> str:
    """Return a stack's name, as `PROJECT/STACK`, for the annotation `MADE_BY`."""
    return f"{project}/{name}"


def marked(manifest: Manifest) -> Manifest:
    """Return `manifest` with the annotations that name the current stack."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), MADE_BY: stack(), **_backend()}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _backend() -> dict[str, str]:
    """Return the annotation `BACKEND`, or {} if the stack is in another backend than Slipway's."""
    url = os.environ.get("PULUMI_BACKEND_URL", "/")
    file = Path(unquote(url.removeprefix("file://")), BACKEND_ID)
    return {BACKEND: file.read_text()} if file.is_file() else {}


def made_by(thing: Mapping[str, Any] | None) -> str | None:
    """Return the stack that created an object; None for another party's or a missing object.

    For a stack in another person's backend, the result says so, and thus differs from any name.
    """
    annotations = (thing or {}).get("metadata", {}).get("annotations") or {}
    stack, other, own = annotations.get(MADE_BY), annotations.get(BACKEND), _backend()
    if stack is not None and own and other not in {None, own[BACKEND]}:
        place = f"{os.environ['PULUMI_BACKEND_URL']}/{BACKEND_ID}"
        return f"{stack} in another backend (if it was moved here, write its ID {other} to {place})"
    return None if stack is None else str(stack)


def digest(manifests: Manifest | list[Manifest]) -> str:
    """Return 12 hexadecimal digits that change with the content of the manifests."""
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()[:12]


def held(kind: str, metadata: Mapping[str, Any]) -> str | None:
    """Return a message with the finalizers that block an object's deletion, and a remedy.

    Returns None if the object has only finalizers that Kubernetes itself removes.
    """
    # Kubernetes removes its own finalizers when it has finished.
    foreign = [
        name
        for name in metadata.get("finalizers") or ()
        if "/" in name and not name.startswith("kubernetes.io/")
    ]
    if not foreign:
        return None
    name, namespace = metadata["name"], metadata.get("namespace")
    where = f"--namespace {namespace} " if namespace else ""
    finalizers = "finalizer" if len(foreign) == 1 else "finalizers"
    return (
        f"{kind} {name} can't be deleted while it has the {finalizers} {', '.join(foreign)}, which "
        "only the controller that set it should remove. If that controller no longer exists, run: "
        f"kubectl {where}patch {kind.lower()} {name} {_RELEASE}"
    )


def condition(thing: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return an object's condition of the type `type_`, or an empty map if it has none."""
    conditions = (thing.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == type_), {})


def holds(thing: Mapping[str, Any], type_: str) -> bool:
    """Return whether an object's condition of the type `type_` is true."""
    return condition(thing, type_).get("status") == "True"


def unready(node: Mapping[str, Any]) -> str | None:
    """Return why a node is not Ready, or None if it is."""
    if holds(node, "Ready"):
        return None
    ready = condition(node, "Ready")
    why = "is not Ready" if ready else "its kubelet has not reported yet"
    return str(ready.get("message", why))


def troubles(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state and message of each container in `pod` that is not running."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        for kind, state in status["state"].items():
            if kind != "running":
                yield f"{state.get('reason', kind)} {state.get('message', '')}".strip()
