"""`slipway:clusters:Minikube`: a profile of minikube's as a resource of the local provider."""

from typing import ClassVar

from clusters.local.handler import LocalHandler
from clusters.minikube.tool import MinikubeTool
from core.handler import Properties


class MinikubeHandler(LocalHandler):
    """Inputs: `name`, `adopt`, and what `minikube start` is given.

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
