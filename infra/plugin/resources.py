"""Every resource type of the local provider. A new one is one line."""

from collections.abc import Mapping

from clusters.embedded.handler import EmbeddedHandler
from images.handler import ImageHandler
from images.job_handler import JobImageHandler
from infra.plugin.handler import Handler
from infra.readiness import OperatorReadyHandler
from jobs.life.gate import GateHandler
from jobs.life.run import PyTorchJobHandler

HANDLERS: Mapping[str, Handler] = {
    handler.type: handler
    for handler in (
        EmbeddedHandler(),
        ImageHandler(),
        JobImageHandler(),
        OperatorReadyHandler(),
        PyTorchJobHandler(),
        GateHandler(),
    )
}
