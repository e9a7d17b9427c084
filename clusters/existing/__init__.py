"""An existing cluster, whoever has made it: by a context of a kubeconfig."""

from clusters.cluster import Kind
from core.lazy import Lazy

KIND = Kind(
    settings=Lazy("clusters.existing.settings.Settings"),
    gpus=Lazy("clusters.existing.cluster.gpus"),
    declare=Lazy("clusters.existing.cluster.provision"),
    remains=Lazy("clusters.existing.remains.remains"),
)
