"""Takes a worker from one world into the next, with the state of the one that is furthest."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from slipway_trainer.elastic import world
from slipway_trainer.elastic.board import Record
from slipway_trainer.elastic.interface import choose, own_address
from slipway_trainer.elastic.rendezvous import Rendezvous
from slipway_trainer.elastic.settings import Settings
from slipway_trainer.elastic.state import hand_over
from slipway_trainer.elastic.world import WorldChanged

State = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """How long to wait.

    Attributes:
        step: For a worker, in a collective operation; then it counts as lost.
        join: For enough workers to form a world.
    """

    step: timedelta
    join: timedelta


@dataclass(frozen=True)
class Entered:
    """A world that this worker is in.

    Attributes:
        record: Its generation and its members in rank order.
        before: The members of the world that its state comes from, none for a job's first.
        rank: This worker's.
        state: What to go on with; None where that is this worker's own.
        failed: Whether a failure, not a newcomer, was why it formed.
        reason: What failed on this worker.
        seconds: How long this worker was between two worlds.
    """

    record: Record
    before: list[str]
    rank: int
    state: State | None
    failed: bool
    reason: str
    seconds: float


class Membership:
    """One worker's membership in the worlds of a job."""

    def __init__(self, settings: Settings, limits: Limits, device: torch.device) -> None:
        self.settings = settings
        self._limits = limits
        self._device = device
        choose(own_address(settings.peers[settings.index][0]))
        self.rendezvous = Rendezvous(settings)
        self.me = self.rendezvous.me.incarnation
        self._generation = 0
        self._members: list[str] = []

    def next_world(
        self, reason: str, version: int, state: Callable[[], State], least: int
    ) -> Entered:
        """Leave this world, and return the next once its state is there.

        Args:
            reason: What failed; empty when nothing did.
            version: How far this worker's state is.
            state: Returns that state.
            least: The fewest workers to go on with.

        Raises:
            JobDone: the others are at the end.
            TimeoutError: too few came in time.
        """
        began = time.monotonic()
        end = began + self._limits.join.total_seconds()
        while True:
            world.leave()
            seconds = max(1.0, end - time.monotonic())
            formed = self.rendezvous.next_world(seconds, least)
            self.rendezvous.publish(formed.record)
            try:
                world.enter(formed, self._limits.step)
                taken, before, failed = self._take_over(
                    formed.rank, version, state, failed=bool(reason)
                )
            except WorldChanged as change:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"no world held for {self._limits.join}; the last one: {change}"
                    ) from change
                continue
            self._generation = formed.record.generation
            self._members = [member.incarnation for member in formed.record.members]
            seconds = time.monotonic() - began
            return Entered(formed.record, before, formed.rank, taken, failed, reason, seconds)

    def _take_over(
        self, rank: int, version: int, state: Callable[[], State], *, failed: bool
    ) -> tuple[State | None, list[str], bool]:
        """Return the state of the furthest, unless it is this worker's, and what it was part of."""
        mine = {
            "generation": self._generation,
            "version": version,
            "members": self._members,
            "failed": failed,
        }
        given = world.collective(lambda: world.gather(mine))
        # A worker without a world has generation 0; one that was left behind has an older one.
        furthest = max(given, key=lambda each: (each["generation"], each["version"]))
        source = given.index(furthest)
        own = state() if source == rank else None
        taken = world.collective(lambda: hand_over(own, source, self._device))
        any_failed = any(each["failed"] for each in given)
        return (taken if own is None else None), furthest["members"], any_failed
