"""The cluster kind `kind`: nodes are containers on this machine, created by kind."""

from clusters.cluster import Kind, OwnCluster
from core import tokens
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("clusters.kind.cluster.KindSettings"),
    capacity=Lazy("clusters.kind.cluster.capacity"),
    kubernetes=lambda settings: (settings.image or "").rpartition(":v")[2],
    declare=Lazy("clusters.kind.cluster.provision"),
    remains=Lazy("clusters.kind.tool.KindHandler.remains"),
    own=OwnCluster(
        type=tokens.KIND,
        handler=Lazy("clusters.kind.tool.KindHandler"),
        notes="local-clusters/kind",
        remove=Lazy("clusters.kind.tool.KindHandler.remove"),
    ),
    image_targets={"kind": Lazy("clusters.kind.tool.images")},
    tools=("kind",),
    more_tools=Lazy("clusters.kind.tool.more_tools"),
)
