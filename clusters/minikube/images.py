"""The way an image gets into minikube's nodes: `minikube image load`."""

import threading
from dataclasses import dataclass
from pathlib import Path

from clusters.local.images import NodeImages
from clusters.minikube.tool import CREATE_SECONDS, MinikubeTool


@dataclass(frozen=True)
class MinikubeImages(NodeImages):
    """The images of a profile of minikube's.

    Args:
        profile: Its name.
    """

    profile: str

    @property
    def tool(self) -> MinikubeTool:
        return MinikubeTool(self.profile)

    def bring_in(self, archive: Path, cancelled: threading.Event) -> None:
        self.tool.run("image", "load", str(archive), limit=CREATE_SECONDS, cancelled=cancelled)

    def nodes(self) -> list[str]:
        return [str(each["Name"]) for each in self.tool.statuses()]

    def execute(self, node: str, *command: str, limit: float) -> str:
        return self.tool.run("ssh", f"--node={node}", "--", "sudo", *command, limit=limit)
