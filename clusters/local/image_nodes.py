"""Images in the containerds of a local cluster's nodes, each of which is asked by its tool."""

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from clusters.local.kind_tool import KindTool
from clusters.local.minikube_tool import MinikubeTool
from core.lock import Cancelled
from core.process import CommandFailed
from core.toolchain import ToolMissing
from images.build.runner import Reporter
from images.targets.target import Target, TargetError, listed

_ANSWER_LIMIT = 60.0
_REMOVE_LIMIT = 300.0


class NodesTool(Protocol):
    """What a local cluster's tool does with its nodes."""

    def needs(self) -> list[str]:
        """Return what is missing on this machine for it to work."""

    def exists(self) -> bool:
        """Whether there is such a cluster."""

    def stopped(self) -> Sequence[object]:
        """Return what of it doesn't run."""

    def nodes(self) -> Sequence[str]:
        """Return the names of the nodes."""

    def execute(self, node: str, *command: str, limit: float) -> str:
        """Run a program as root on a node and return what it prints."""

    def load(self, archive: Path, cancelled: threading.Event) -> None:
        """Bring an archive's images into every node."""


class EveryNode(Target):
    """A target whose images are those that every node has."""

    @property
    @abstractmethod
    def tool(self) -> NodesTool:
        """The tool, bound to the cluster."""

    @property
    def is_up(self) -> bool:
        tool = self.tool
        try:
            return not tool.needs() and tool.exists() and not tool.stopped()
        except (RuntimeError, ToolMissing):
            return False

    def digest(self, name: str) -> str | None:
        """Return the digest that all nodes have by that name; None when one has another or none."""
        with _told():
            digests = {self._digest(node, name) for node in self.tool.nodes()}
        return digests.pop() if len(digests) == 1 else None

    def load(self, archive: Path, reference: str, reporter: Reporter) -> None:
        with _told():
            self.tool.load(archive, reporter.cancelled)

    def tag(self, name: str, other: str) -> None:
        with _told():
            for node in self.tool.nodes():
                self._images(node, "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        with _told():
            for node in self.tool.nodes():
                if self._digest(node, name) is not None:
                    self._images(node, "remove", "--sync", name, limit=_REMOVE_LIMIT)

    def _digest(self, node: str, name: str) -> str | None:
        return listed(self._images(node, "list", f"name=={name}"), name)

    def _images(self, node: str, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        command = ("ctr", "--namespace=k8s.io", "images", *arguments)
        return self.tool.execute(node, *command, limit=limit)


@dataclass(frozen=True)
class KindNodes(EveryNode):
    """A cluster of kind's, into which `kind load image-archive` brings images.

    Args:
        cluster: Its name.
    """

    cluster: str

    @property
    def tool(self) -> KindTool:
        return KindTool(self.cluster)


@dataclass(frozen=True)
class MinikubeNodes(EveryNode):
    """A profile of minikube's, into which `minikube image load` brings images.

    Args:
        profile: Its name.
    """

    profile: str

    @property
    def tool(self) -> MinikubeTool:
        return MinikubeTool(self.profile)


@contextmanager
def _told() -> Iterator[None]:
    """Tell what went wrong as every target does."""
    try:
        yield
    except InterruptedError as error:
        raise Cancelled(str(error)) from error
    except (CommandFailed, ToolMissing) as error:
        raise TargetError(str(error)) from error
