"""Every resource type of the local provider. A new one is one line."""

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name

from core.handler import Handler

CLASSES: Mapping[str, str] = {
    "slipway:clusters:Access": "clusters.access.handler.AccessHandler",
    "slipway:clusters:Embedded": "clusters.embedded.handler.EmbeddedHandler",
    "slipway:clusters:Kind": "clusters.local.kind_handler.KindHandler",
    "slipway:clusters:Minikube": "clusters.local.minikube_handler.MinikubeHandler",
    "slipway:images:Image": "images.handler.ImageHandler",
    "slipway:images:JobImage": "images.handler.JobImageHandler",
    "slipway:images:Program": "images.handler.ProgramHandler",
    "slipway:infra:GpuReady": "infra.gpus.handler.GpuReadyHandler",
    "slipway:infra:OperatorReady": "infra.operator.handler.OperatorReadyHandler",
    "slipway:jobs:Claim": "jobs.life.claim.ClaimHandler",
    "slipway:jobs:Gate": "jobs.life.gate.GateHandler",
    "slipway:jobs:PyTorchJob": "jobs.life.run.PyTorchJobHandler",
}


class Handlers(Mapping[str, Handler]):
    """The handlers by their types, each imported when the engine first asks for its type."""

    def __init__(self) -> None:
        self._made: dict[str, Handler] = {}

    def __getitem__(self, token: str) -> Handler:
        if token not in self._made:
            self._made[token] = resolve_name(CLASSES[token])()
        return self._made[token]

    def __iter__(self) -> Iterator[str]:
        return iter(CLASSES)

    def __len__(self) -> int:
        return len(CLASSES)
