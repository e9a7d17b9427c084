"""Every resource type of the local provider. A new one is one line here, or its cluster's kind."""

from collections.abc import Callable, Iterator, Mapping

from clusters import CLUSTERS
from core.handler import Handler
from core.lazy import Lazy
from images.targets.target import TARGETS

_SERVED: Mapping[str, Lazy] = {
    "slipway:clusters:Access": Lazy("clusters.access.handler.AccessHandler"),
    "slipway:infra:GpuReady": Lazy("infra.gpus.handler.GpuReadyHandler"),
    "slipway:infra:OperatorReady": Lazy("infra.operator.handler.OperatorReadyHandler"),
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


class Handlers(Mapping[str, Handler]):
    """The handlers by their types, each imported when the engine first uses its type."""

    def __init__(self) -> None:
        own = (kind.own for kind in CLUSTERS.values() if kind.own is not None)
        self._makers: dict[str, Callable[..., Handler]] = {
            **_SERVED,
            **_IMAGES,
            **{each.type: each.handler for each in own},
            **{name: each for kind in CLUSTERS.values() for name, each in kind.handlers.items()},
        }
        self._made: dict[str, Handler] = {}

    def __getitem__(self, token: str) -> Handler:
        if token not in self._made:
            arguments = (image_targets(),) if token in _IMAGES else ()
            self._made[token] = self._makers[token](*arguments)
        return self._made[token]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
