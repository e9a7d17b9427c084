"""How an image gets into the nodes of a cluster of kind's or minikube's: by the tool itself."""

from dataclasses import dataclass
from pathlib import Path

from clusters.cli_clusters.tool import Tool
from core.context import Context
from core.toolchain import ToolMissing
from images.targets.target import Target, listed

_IMAGES_SECONDS = 60.0
_REMOVE_SECONDS = 300.0


@dataclass(frozen=True)
class NodeImages(Target):
    """A target whose images are those that every node of a tool's cluster has."""

    tool: Tool

    @property
    def is_up(self) -> bool:
        try:
            return not self.tool.needs() and self.tool.exists() and not self.tool.stopped()
        except (RuntimeError, ToolMissing):
            return False

    def digest(self, name: str) -> str | None:
        """Return the digest that all nodes have by that name; None when one has another or none."""
        digests = {self._digest(node, name) for node in self.tool.nodes()}
        return digests.pop() if len(digests) == 1 else None

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        self.tool.load(archive, reporter)

    def tag(self, name: str, other: str) -> None:
        for node in self.tool.nodes():
            self._images(node, "tag", "--force", name, other)

    def remove(self, name: str) -> None:
        for node in self.tool.nodes():
            if self._digest(node, name) is not None:
                self._images(node, "remove", "--sync", name, limit=_REMOVE_SECONDS)

    def _digest(self, node: str, name: str) -> str | None:
        return listed(self._images(node, "list", f"name=={name}"), name)

    def _images(self, node: str, *arguments: str, limit: float = _IMAGES_SECONDS) -> str:
        command = ("ctr", "--namespace=k8s.io", "images", *arguments)
        return self.tool.execute(node, *command, limit=limit)
