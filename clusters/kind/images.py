"""The way an image gets into kind's nodes: `kind load image-archive`."""

import threading
from dataclasses import dataclass
from pathlib import Path

from clusters.kind.tool import CREATE_SECONDS, KindTool
from clusters.local.images import NodeImages

_BALANCER = "-external-load-balancer"
"""How the container's name ends that stands before several control planes; it is no node."""


@dataclass(frozen=True)
class KindImages(NodeImages):
    """The images of a cluster of kind's.

    Args:
        cluster: Its name.
    """

    cluster: str

    @property
    def tool(self) -> KindTool:
        return KindTool(self.cluster)

    def bring_in(self, archive: Path, cancelled: threading.Event) -> None:
        command = ("load", "image-archive", str(archive), "--name", self.cluster)
        self.tool.run(*command, limit=CREATE_SECONDS, cancelled=cancelled)

    def nodes(self) -> list[str]:
        return [each for each in self.tool.containers() if not each.endswith(_BALANCER)]

    def execute(self, node: str, *command: str, limit: float) -> str:
        return self.tool.engine.execute(node, *command, limit=limit)
