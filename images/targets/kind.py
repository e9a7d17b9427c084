"""Images in the nodes of a cluster of kind's, brought in by `kind load image-archive`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.local.kind_tool import KindTool
from images.steps import Reporter
from images.targets.every_node import EveryNode


@dataclass(frozen=True)
class KindNodes(EveryNode):
    """A cluster of kind's.

    Args:
        cluster: Its name.
    """

    cluster: str

    def nodes(self) -> Sequence[str]:
        return self._tool.nodes()

    def execute(self, node: str, command: Sequence[str], limit: float) -> str:
        return self._tool.engine.execute(node, *command, limit=limit)

    def bring(self, archive: Path, reporter: Reporter) -> None:
        self._tool.load(archive, reporter.cancelled)

    def works(self) -> bool:
        tool = self._tool
        return not tool.needs() and tool.exists() and not tool.stopped()

    @property
    def _tool(self) -> KindTool:
        return KindTool(self.cluster)


TARGET = KindNodes
