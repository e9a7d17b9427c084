"""Images in the nodes of a profile of minikube's, brought in by `minikube image load`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.local.minikube_tool import MinikubeTool
from images.steps import Reporter
from images.targets.every_node import EveryNode


@dataclass(frozen=True)
class MinikubeNodes(EveryNode):
    """A profile of minikube's, whose container runtime is containerd.

    Args:
        profile: Its name.
    """

    profile: str

    def nodes(self) -> Sequence[str]:
        return self._tool.nodes()

    def execute(self, node: str, command: Sequence[str], limit: float) -> str:
        return self._tool.execute(node, *command, limit=limit)

    def bring(self, archive: Path, reporter: Reporter) -> None:
        self._tool.load(archive, reporter.cancelled)

    def works(self) -> bool:
        tool = self._tool
        return not tool.needs() and tool.exists() and not tool.stopped()

    @property
    def _tool(self) -> MinikubeTool:
        return MinikubeTool(self.profile)


TARGET = MinikubeNodes
