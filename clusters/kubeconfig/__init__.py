"""The cluster kind `kubeconfig`: an existing cluster, selected by a kubeconfig context."""

from clusters.cluster import Kind
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("clusters.kubeconfig.settings.KubeconfigSettings"),
    gpus=Lazy("clusters.kubeconfig.cluster.gpus"),
    declare=Lazy("clusters.kubeconfig.cluster.provision"),
    remains=Lazy("clusters.kubeconfig.look.remains"),
)
