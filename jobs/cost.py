"""What a training costs: the nodes with GPUs that are made for it, and go after it. Pure.

Nodes without GPUs are there for the cluster anyway, and are in the estimate of the stack alone.
"""

from dataclasses import asdict, dataclass
from typing import Any

_AROUND_SECONDS = 15 * 60
"""A node is paid for from before its first pod until some minutes after its last."""


@dataclass(frozen=True)
class TrainingCost:
    """What the nodes of one job cost.

    Args:
        fewest: How many nodes its GPUs take at least.
        nodes: How many they take with one for each replica.
        hourly: What one node costs by the hour, at most.
        currency: Of that.
    """

    fewest: int
    nodes: int
    hourly: float
    currency: str

    def least(self, seconds: float) -> float:
        """Return what a training of so many seconds costs, and nothing around it."""
        return self.fewest * seconds * self.hourly / 3600

    def most(self, seconds: float) -> float:
        """Return what it costs with nodes that are made for it and go after it."""
        return self.nodes * (seconds + _AROUND_SECONDS) * self.hourly / 3600

    def in_words(self, seconds: float) -> str:
        """Return both in words."""
        least, most = self.least(seconds), self.most(seconds)
        return f"{self.currency} {least:,.2f} to {most:,.2f} ({self._nodes})"

    def most_in_words(self, seconds: float) -> str:
        """Return the most in words."""
        return f"at most {self.currency} {self.most(seconds):,.2f} ({self._nodes})"

    @property
    def _nodes(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:g} nodes"
        return f"{nodes} at {self.hourly:g} an hour"

    def as_map(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)
