"""All resource types in the local provider; `pulumi-resource-slipway` runs this module."""

from collections.abc import Callable, Mapping
from functools import partial

from clusters.kinds import CLUSTERS
from core import tokens
from core.handler import Handler, Lazy
from images.targets.target import TARGETS
from infra.provider.provider import SlipwayProvider
from infra.provider.server import serve

VERSION = "0.1.0"

_SERVED: Mapping[str, Callable[[], Handler]] = {
    tokens.CLUSTER_ACCESS: Lazy("clusters.azure.access.AccessHandler"),
    tokens.GPU_READY: Lazy("infra.gpus.gpu_ready.GpuReadyHandler"),
    tokens.OPERATOR_READY: partial(
        Lazy("clusters.operator.operator_ready.OperatorReadyHandler"),
        Lazy("jobs.run.submit.stop_all"),
    ),
    tokens.TRACKING_READY: Lazy("infra.tracking.tracking_ready.TrackingReadyHandler"),
    tokens.CLAIM: Lazy("jobs.run.claim.ClaimHandler"),
    tokens.GATE: Lazy("jobs.run.gate.GateHandler"),
    tokens.PYTORCH_JOB: Lazy("jobs.run.lifecycle.PyTorchJobHandler"),
}
_IMAGES: Mapping[str, Lazy] = {
    tokens.IMAGE: Lazy("images.image_lifecycle.ImageHandler"),
    tokens.JOB_IMAGE: Lazy("images.image_lifecycle.JobImageHandler"),
    tokens.PROGRAM: Lazy("images.image_lifecycle.ProgramHandler"),
}
"""Types of resources that transfer an image to a cluster through one of `image_targets()`."""


def image_targets() -> Mapping[str, Lazy]:
    """Return all image targets by name: those in `images`, and those that cluster kinds add."""
    own = (kind.image_targets for kind in CLUSTERS.values())
    return {**TARGETS, **{name: target for each in own for name, target in each.items()}}


def handlers() -> dict[str, Callable[[], Handler]]:
    """Return handler factories by resource type; a factory imports its handler when called."""
    served: dict[str, Callable[[], Handler]] = {**_SERVED}
    served |= {name: partial(each, image_targets()) for name, each in _IMAGES.items()}
    for kind in CLUSTERS.values():
        served |= kind.handlers
        if kind.own is not None:
            served[kind.own.type] = kind.own.handler
    return served


if __name__ == "__main__":
    serve(lambda engine: SlipwayProvider(handlers(), engine), VERSION)
