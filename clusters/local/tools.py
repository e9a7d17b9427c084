"""Where the tools of local clusters are, and what a person does who hasn't got one."""

from collections.abc import Mapping
from pathlib import Path

from core import toolchain

INSTALL: Mapping[str, str] = {
    "kind": "Install kind, or Go, from which `make setup` builds it: "
    "https://kind.sigs.k8s.io/docs/user/quick-start/#installation",
    "minikube": "Install minikube: https://minikube.sigs.k8s.io/docs/start/",
}


def find(name: str) -> Path:
    """Return where the tool is that `make setup` found, of a version that will do.

    Raises:
        core.toolchain.ToolMissing: it is not there; with what to do.
    """
    reason = missing(name)
    if reason is not None:
        raise toolchain.ToolMissing(reason)
    return toolchain.path(name)


def missing(name: str) -> str | None:
    """Return why a tool can't be used and what to do; None when it can."""
    try:
        toolchain.path(name)
    except toolchain.ToolMissing:
        return f"{name} is missing. {INSTALL[name]}. Then run `make setup` for this stack"
    return None
