"""`slipway:clusters:Minikube`: a profile of minikube's as a resource of the local provider."""

from pathlib import Path
from typing import ClassVar

from clusters.local.handler import LocalHandler
from clusters.local.marks import Mark
from clusters.local.minikube_tool import MinikubeTool
from core.handler import Properties


class MinikubeHandler(LocalHandler):
    """Inputs: `name`, `adopt`, and what `minikube start` is told.

    That is `driver`, `cpus`, `memory`, `diskSize`, `nodes`, `kubernetesVersion`, `ports`, `mount`
    and `force`, in minikube's own words.
    """

    type: ClassVar[str] = "slipway:clusters:Minikube"
    program: ClassVar[str] = "minikube"

    @property
    def shape(self) -> set[str]:
        return {
            *("driver", "cpus", "memory", "diskSize", "nodes", "kubernetesVersion"),
            *("ports", "mount"),
        }

    def tool(self, inputs: Properties) -> MinikubeTool:
        return MinikubeTool(inputs["name"], inputs)


def remove(directory: Path) -> None:
    """Remove the cluster of that mark. Raises `RuntimeError` or `ToolMissing` when it can't be."""
    MinikubeTool(directory.name).delete()
    Mark("minikube", directory.name).clear()
