"""Images in the nodes of a cluster of kind's, brought in by `kind load image-archive`."""

from dataclasses import dataclass

from clusters.local.kind_tool import KindTool
from images.targets.every_node import EveryNode


@dataclass(frozen=True)
class KindNodes(EveryNode):
    """A cluster of kind's.

    Args:
        cluster: Its name.
    """

    cluster: str

    @property
    def tool(self) -> KindTool:
        return KindTool(self.cluster)


TARGET = KindNodes
