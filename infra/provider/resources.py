"""Every resource type of the local provider. A new one is one line here, or its cluster's kind."""

from collections.abc import Callable, Mapping
from functools import partial

from clusters import CLUSTERS
from core.handler import Handler
from core.lazy import Lazy
from images.targets.target import TARGETS

_SERVED: Mapping[str, Callable[[], Handler]] = {
    "slipway:clusters:Access": Lazy("clusters.azure.access.AccessHandler"),
    "slipway:infra:GpuReady": Lazy("infra.gpus.handler.GpuReadyHandler"),
    "slipway:infra:OperatorReady": partial(
        Lazy("clusters.operator.operator_ready.OperatorReadyHandler"),
        Lazy("jobs.run.submit.stop_all"),
    ),
    "slipway:infra:TrackingReady": Lazy("infra.tracking.handler.TrackingReadyHandler"),
    "slipway:jobs:Claim": Lazy("jobs.run.claim.ClaimHandler"),
    "slipway:jobs:Gate": Lazy("jobs.run.gate.GateHandler"),
    "slipway:jobs:PyTorchJob": Lazy("jobs.run.handler.PyTorchJobHandler"),
}
_IMAGES: Mapping[str, Lazy] = {
    "slipway:images:Image": Lazy("images.handler.ImageHandler"),
    "slipway:images:JobImage": Lazy("images.handler.JobImageHandler"),
    "slipway:images:Program": Lazy("images.handler.ProgramHandler"),
}
"""These bring an image in, in one of the ways that the kinds of cluster have."""


def image_targets() -> Mapping[str, Lazy]:
    """Return every way for an image to get in: those of `images`, and those of each kind's own."""
    own = (kind.image_targets for kind in CLUSTERS.values())
    return {**TARGETS, **{name: target for each in own for name, target in each.items()}}


def handlers() -> dict[str, Callable[[], Handler]]:
    """Return by its type what makes a handler, which is imported only then."""
    served: dict[str, Callable[[], Handler]] = {**_SERVED}
    served |= {name: partial(each, image_targets()) for name, each in _IMAGES.items()}
    for kind in CLUSTERS.values():
        served |= kind.handlers
        if kind.own is not None:
            served[kind.own.type] = kind.own.handler
    return served
