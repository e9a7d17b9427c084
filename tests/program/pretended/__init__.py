"""A kind of cluster that is only declared."""

from clusters.cluster import Kind, OwnCluster
from core.handler import Lazy

_CLUSTER, _HANDLER = f"{__name__}.cluster", f"{__name__}.handler"
KIND = Kind(
    settings=Lazy(f"{_CLUSTER}.Settings"),
    gpus=Lazy(f"{_CLUSTER}.gpus"),
    capacity=Lazy(f"{_CLUSTER}.capacity"),
    declare=Lazy(f"{_CLUSTER}.provision"),
    remains=Lazy(f"{_CLUSTER}.remains"),
    own=OwnCluster(
        type="slipway:clusters:Pretended",
        handler=Lazy(f"{_HANDLER}.PretendedHandler"),
        notes="pretended-clusters",
        remove=Lazy(f"{_HANDLER}.remove"),
    ),
    image_targets={"pretended": Lazy(f"{_HANDLER}.Shelf")},
    tools=("nft",),
)
