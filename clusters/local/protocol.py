"""What kind and minikube have in common, as far as the life of a cluster needs it."""

from typing import Protocol

from clusters.local import nodes
from clusters.local.nodes import Problem
from core.context import Context
from core.process import CommandFailed


class Tool(Protocol):
    """A command-line tool, bound to one cluster."""

    @property
    def name(self) -> str:
        """What it calls the cluster."""

    @property
    def expected(self) -> int:
        """How many nodes the cluster is made with."""

    def needs(self) -> list[str]:
        """Return what is missing on this machine for it to work, each with what to do."""

    def exists(self) -> bool:
        """Whether there is a cluster of that name, working or not."""

    def refusal(self) -> str | None:
        """Return why the cluster that is there can't be adopted; None when it can."""

    def create(self, context: Context) -> None:
        """Make the cluster."""

    def start(self, context: Context) -> None:
        """Start what has been stopped of it."""

    def stopped(self) -> list[Problem]:
        """Return what of it doesn't run."""

    def kubeconfig(self) -> str:
        """Return what it takes to connect, in a form that changes only with that."""

    def delete(self) -> None:
        """Remove the cluster; succeeds when there is none."""


def problems(tool: Tool, expected: int | None) -> list[Problem]:
    """Return what is the matter with a cluster, from the outside inwards.

    Beyond the first thing that is, nothing is asked.

    Args:
        tool: Bound to it.
        expected: How many nodes there have to be; None when that is somebody else's to say.
    """
    if needs := tool.needs():
        return [Problem("tools", need) for need in needs]
    try:
        if not tool.exists():
            return [Problem("cluster", f"there is no {tool.name} any more")]
        return tool.stopped() or nodes.problems(tool.kubeconfig(), expected)
    except (CommandFailed, ValueError, OSError) as error:
        return [Problem("cluster", str(error))]
