"""What kind and minikube have in common: a command line that makes and removes one cluster."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from clusters.local import nodes
from core import toolchain
from core.context import Context
from core.problem import Problem
from core.process import CommandFailed

_INSTALL: Mapping[str, str] = {
    "kind": "Install kind, or Go, from which `make setup` builds it: "
    "https://kind.sigs.k8s.io/docs/user/quick-start/#installation",
    "minikube": "Install minikube: https://minikube.sigs.k8s.io/docs/start/",
}


class Tool(ABC):
    """A command-line tool, bound to one cluster."""

    name: str
    """What it calls the cluster."""

    @property
    @abstractmethod
    def expected(self) -> int:
        """How many nodes the cluster is made with."""

    @abstractmethod
    def needs(self) -> list[str]:
        """Return what is missing on this machine for it to work, each with what to do."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether a cluster of that name exists, working or not."""

    def refusal(self) -> str | None:
        """Return why the existing cluster can't be adopted; None when it can."""
        return None

    @abstractmethod
    def create(self, context: Context) -> None:
        """Make the cluster."""

    @abstractmethod
    def start(self, context: Context) -> None:
        """Start what has been stopped of it."""

    @abstractmethod
    def stopped(self) -> list[Problem]:
        """Return what of it doesn't run."""

    @abstractmethod
    def kubeconfig(self) -> str:
        """Return what it takes to connect, in a form that changes only with that."""

    @abstractmethod
    def delete(self) -> None:
        """Remove the cluster; succeeds when it does not exist."""

    def problems(self, expected: int | None) -> list[Problem]:
        """Return what is wrong with the cluster, from the outside inwards.

        Beyond the first problem, nothing is checked.

        Args:
            expected: The required number of nodes; None when that is not ours to decide.
        """
        if needs := self.needs():
            return [Problem("tools", need) for need in needs]
        try:
            if not self.exists():
                return [Problem("cluster", f"there is no {self.name} any more")]
            return self.stopped() or nodes.problems(self.kubeconfig(), expected)
        except (CommandFailed, ValueError, OSError) as error:
            return [Problem("cluster", str(error))]


def find(name: str) -> Path:
    """Return where the tool is that `make setup` found, of a version that will do.

    Raises:
        core.toolchain.ToolMissing: it is missing; with what to do.
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
        return f"{name} is missing. {_INSTALL[name]}. Then run `make setup` for this stack"
    return None
