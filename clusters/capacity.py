"""What a cluster has for jobs."""

from dataclasses import dataclass
from decimal import Decimal

from core.fields import gibibytes


@dataclass(frozen=True)
class Capacity:
    """What jobs may request at the same time: what is reserved or requested by others is taken off.

    Args:
        cpu: Cores of one node.
        memory: Bytes of one node.
        gpus: `nvidia.com/gpu` of one node.
        nodes: The number of such nodes, or the most that may be made.
    """

    cpu: Decimal
    memory: int
    gpus: int
    nodes: int

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes, each"
        gpus = f", {self.gpus} x nvidia.com/gpu" if self.gpus else ""
        return f"{nodes} with {float(self.cpu):g} cores, {gibibytes(self.memory)}{gpus} for jobs"
