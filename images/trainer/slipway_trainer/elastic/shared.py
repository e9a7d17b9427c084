"""What the workers of an elastic job know alike, besides model, optimizer and ledger."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shared:
    """Part of the state that one worker hands to the others.

    Attributes:
        agreed: Results of `agree`, by key.
        total: Sum of all that was given to `add`, over all steps and workers.
        losses: How often the world formed again because a worker was lost.
        reformations: How often it formed again, for losses and for newcomers.
        indices: Of all workers that there ever were.
        longest_pause: Seconds, the longest that a worker was between two steps; known at the end.
    """

    agreed: dict[str, Any] = field(default_factory=dict)
    total: float = 0.0
    losses: int = 0
    reformations: int = 0
    indices: list[int] = field(default_factory=list)
    longest_pause: float = 0.0


@dataclass(frozen=True)
class Change:
    """A world that formed: what a worker's log should say about it.

    Attributes:
        generation: Its number.
        size: How many workers it has.
        rank: This worker's.
        lost: How many workers of the last world are not in it.
        joined: How many of its workers were not in the last one.
        step: Optimizer steps in the model that it goes on with.
        seconds: How long this worker took into it, from the failure or the decision on.
        reason: What failed on this worker; empty when nothing did.
    """

    generation: int
    size: int
    rank: int
    lost: int
    joined: int
    step: int
    seconds: float
    reason: str
