"""The cluster kind `minikube`: nodes are containers or virtual machines, created by minikube."""

from clusters.cluster import Kind, OwnCluster
from core import tokens
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("clusters.minikube.cluster.MinikubeSettings"),
    capacity=Lazy("clusters.minikube.cluster.capacity"),
    declare=Lazy("clusters.minikube.cluster.provision"),
    remains=Lazy("clusters.minikube.tool.MinikubeHandler.remains"),
    own=OwnCluster(
        type=tokens.MINIKUBE,
        handler=Lazy("clusters.minikube.tool.MinikubeHandler"),
        notes="local-clusters/minikube",
        remove=Lazy("clusters.minikube.tool.MinikubeHandler.remove"),
    ),
    image_targets={"minikube": Lazy("clusters.minikube.tool.images")},
    tools=("minikube",),
    more_tools=Lazy("clusters.minikube.tool.more_tools"),
)
