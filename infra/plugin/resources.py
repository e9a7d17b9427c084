"""Every resource type of the local provider. A new one is one line."""

from collections.abc import Mapping

from clusters.access.handler import AccessHandler
from clusters.embedded.handler import EmbeddedHandler
from clusters.local.kind_handler import KindHandler
from clusters.local.minikube_handler import MinikubeHandler
from images.handler import ImageHandler
from images.job_handler import JobImageHandler
from images.program_handler import ProgramHandler
from infra.gpu_ready import GpuReadyHandler
from infra.plugin.handler import Handler
from infra.readiness import OperatorReadyHandler
from jobs.life.gate import GateHandler
from jobs.life.run import PyTorchJobHandler

HANDLERS: Mapping[str, Handler] = {
    handler.type: handler
    for handler in (
        AccessHandler(),
        EmbeddedHandler(),
        KindHandler(),
        MinikubeHandler(),
        ImageHandler(),
        JobImageHandler(),
        ProgramHandler(),
        OperatorReadyHandler(),
        GpuReadyHandler(),
        PyTorchJobHandler(),
        GateHandler(),
    )
}
