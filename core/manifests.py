"""Kubernetes objects as plain dicts: read, marked as a stack's own, and what holds them back."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, cast

import yaml

Manifest = dict[str, Any]

MANAGED_BY = {"app.kubernetes.io/managed-by": "slipway"}
"""The label of all that Slipway makes."""
KEPT = "slipway.dev/kept"
"""The annotation of a claim that stays when its job goes."""
KEPT_CLAIM = "slipway-kept"
"""The claim of the volume on which a stack's jobs keep their files, and what a pod calls that."""
KEPT_DIRECTORY = "/opt/kept"
"""Where pods find that volume."""
MADE_BY = "slipway.dev/stack"
"""The annotation by which a stack knows its own objects, also those of an `up` that was killed."""
_RELEASE = """--type=merge --patch='{"metadata":{"finalizers":null}}'"""


def read(path: Path) -> Manifest:
    """Return the one object in the YAML file at `path`."""
    # The C loader: the PyTorchJob CRD has 8,000 lines, and is read on every `up`.
    return cast("Manifest", yaml.load(path.read_text(), Loader=yaml.CSafeLoader))


def rendered(path: Path, **names: str) -> list[Manifest]:
    """Return the objects in the YAML file at `path`, with what its `$names` stand for."""
    text = Template(path.read_text()).substitute(names)
    return [*yaml.load_all(text, Loader=yaml.CSafeLoader)]


def restricted_namespace(name: str) -> Manifest:
    """Return a Namespace in which only pods of Pod Security's level `restricted` may run."""
    # https://kubernetes.io/docs/concepts/security/pod-security-admission/
    labels = {
        f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def owned(kind: str, name: str, namespace: str) -> Manifest:
    """Return the beginning of an object that Slipway makes, of a kind of Kubernetes' own API."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(MANAGED_BY)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def stack() -> str:
    """Return what the running stack is called in `MADE_BY`."""
    import pulumi  # noqa: PLC0415 - only a program has a stack, and this takes a while to load

    return called(pulumi.get_project(), pulumi.get_stack())


def called(project: str, name: str) -> str:
    """Return what a project's stack is called in `MADE_BY`."""
    return f"{project}/{name}"


def marked(manifest: Manifest) -> Manifest:
    """Return `manifest` as the running stack's own."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), MADE_BY: stack()}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def digest(manifests: Manifest | list[Manifest]) -> str:
    """Return 12 hexadecimal digits that change with the content of the manifests."""
    return hashlib.sha256(json.dumps(manifests, sort_keys=True).encode()).hexdigest()[:12]


def held(kind: str, metadata: Mapping[str, Any]) -> str | None:
    """Return which finalizers hold an object, and the command against them; None without any."""
    # Kubernetes takes its own off when all else is done.
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
        f"{kind} {name} is held by the {finalizers} {', '.join(foreign)}, to be taken off by "
        "whoever put it there. If that is gone for good: "
        f"kubectl {where}patch {kind.lower()} {name} {_RELEASE}"
    )


def condition(thing: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return a condition in an object's status; empty without it."""
    found = (thing.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})


def holds(thing: Mapping[str, Any], type_: str) -> bool:
    """Return whether a condition of an object is true."""
    return condition(thing, type_).get("status") == "True"


def unready(node: Mapping[str, Any]) -> str | None:
    """Return why a node is not Ready; None when it is."""
    if holds(node, "Ready"):
        return None
    ready = condition(node, "Ready")
    why = "is not Ready" if ready else "its kubelet has not reported yet"
    return str(ready.get("message", why))


def troubles(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield why containers of a pod are not running."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        for kind, state in status["state"].items():
            if kind != "running":
                yield f"{state.get('reason', kind)} {state.get('message', '')}".strip()
