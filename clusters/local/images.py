"""Images in the containerds of a local cluster's nodes, each reached through its tool."""

import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.local.tool import Tool
from core.context import Context
from core.process import CommandFailed
from core.toolchain import ToolMissing
from images.targets.target import Target, TargetError, listed

_ANSWER_LIMIT = 60.0
_REMOVE_LIMIT = 300.0


class NodeImages(Target):
    """A target whose images are those that every node has."""

    @property
    @abstractmethod
    def tool(self) -> Tool:
        """The tool, bound to the cluster."""

    @abstractmethod
    def bring_in(self, archive: Path, cancelled: threading.Event) -> None:
        """Bring an archive's images into every node; raises as `core.process.run`."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """Return the nodes' names."""

    @abstractmethod
    def execute(self, node: str, *command: str, limit: float) -> str:
        """Run a program as root on a node and return what it prints. Raises `CommandFailed`."""

    @property
    def is_up(self) -> bool:
        tool = self.tool
        try:
            return not tool.needs() and tool.exists() and not tool.stopped()
        except (RuntimeError, ToolMissing):
            return False

    def digest(self, name: str) -> str | None:
        """Return the digest that all nodes have by that name; None when one has another or none."""
        with _as_target():
            digests = {self._digest(node, name) for node in self.nodes()}
        return digests.pop() if len(digests) == 1 else None

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        with _as_target():
            self.bring_in(archive, reporter.cancelled)

    def tag(self, name: str, other: str) -> None:
        with _as_target():
            for node in self.nodes():
                self._images(node, "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        with _as_target():
            for node in self.nodes():
                if self._digest(node, name) is not None:
                    self._images(node, "remove", "--sync", name, limit=_REMOVE_LIMIT)

    def _digest(self, node: str, name: str) -> str | None:
        return listed(self._images(node, "list", f"name=={name}"), name)

    def _images(self, node: str, *arguments: str, limit: float = _ANSWER_LIMIT) -> str:
        command = ("ctr", "--namespace=k8s.io", "images", *arguments)
        return self.execute(node, *command, limit=limit)


@contextmanager
def _as_target() -> Iterator[None]:
    """Raise what every target raises."""
    try:
        yield
    except (CommandFailed, ToolMissing) as error:
        raise TargetError(str(error)) from error
