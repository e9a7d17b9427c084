"""What a training costs: the nodes with GPUs that are made for it, and go after it. Pure.

Nodes without GPUs are there for the cluster anyway, and are in the estimate of the stack alone.
"""

from dataclasses import dataclass

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
        cheapest: The same in the cheapest of several pools; None where there is one price.
    """

    fewest: int
    nodes: int
    hourly: float
    currency: str
    cheapest: float | None = None

    def most(self, seconds: float) -> float:
        """Return what a training costs with nodes that are made for it and go after it."""
        return self.nodes * (seconds + _AROUND_SECONDS) * self.hourly / 3600

    def in_words(self, seconds: float) -> str:
        """Describe what it costs: from its own time alone to the most."""
        hourly = self.hourly if self.cheapest is None else self.cheapest
        least = self.fewest * seconds * hourly / 3600
        return f"{self.currency} {least:,.2f} to {self.most(seconds):,.2f} ({self._nodes})"

    def most_in_words(self, seconds: float) -> str:
        """Describe the most that it costs."""
        return f"at most {self.currency} {self.most(seconds):,.2f} ({self._nodes})"

    def of_nodes(self, nodes: float, seconds: float) -> str:
        """Describe what so many nodes cost in some time."""
        return f"{self.currency} {nodes * seconds * self.hourly / 3600:,.2f}"

    @property
    def _nodes(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:g} nodes"
        least = "" if self.cheapest is None else f"{self.cheapest:g} to "
        return f"{nodes} at {least}{self.hourly:g} an hour"
