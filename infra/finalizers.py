"""What holds an object back that was deleted, and how a person lets it go."""

from collections.abc import Mapping
from typing import Any

_RELEASE = """--type=merge --patch='{"metadata":{"finalizers":null}}'"""


def held(kind: str, metadata: Mapping[str, Any]) -> str | None:
    """Return which finalizers hold an object, and the command that takes them off; None for none.

    Those of Kubernetes itself don't count: it takes them off when all else is done.
    """
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
