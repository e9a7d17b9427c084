"""Images in the nodes of a profile of minikube's, brought in by `minikube image load`."""

from dataclasses import dataclass

from clusters.local.minikube_tool import MinikubeTool
from images.targets.every_node import EveryNode


@dataclass(frozen=True)
class MinikubeNodes(EveryNode):
    """A profile of minikube's, whose container runtime is containerd.

    Args:
        profile: Its name.
    """

    profile: str

    @property
    def tool(self) -> MinikubeTool:
        return MinikubeTool(self.profile)


TARGET = MinikubeNodes
