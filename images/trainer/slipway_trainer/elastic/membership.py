"""Takes a worker from one world into the next, with the state of the one that is furthest.

Where a job was split, and its parts went on, the state follows the membership: the part whose world
the others join is the one whose model all go on with, however many steps another part has made.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from slipway_trainer.elastic import world
from slipway_trainer.elastic.board import Record
from slipway_trainer.elastic.rendezvous import Rendezvous
from slipway_trainer.elastic.settings import Settings, choose_interface, own_address
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
        choose_interface(own_address(settings.peers[settings.index][0]))
        self.rendezvous = Rendezvous(settings)
        self.me = self.rendezvous.me.incarnation
        self._last: Record | None = None

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
            self._last = formed.record
            seconds = time.monotonic() - began
            return Entered(formed.record, before, formed.rank, taken, failed, reason, seconds)

    def _take_over(
        self, rank: int, version: int, state: Callable[[], State], *, failed: bool
    ) -> tuple[State | None, list[str], bool]:
        """Return the state of the furthest, unless it is this worker's, and what it was part of."""
        last = self._last
        mine = {
            # A worker without a world claims nothing; one that was left behind has an older one.
            "claim": [0, 0, 0] if last is None else [*last.claim],
            "version": version,
            "members": [] if last is None else [member.incarnation for member in last.members],
            "failed": failed,
        }
        given = world.collective(lambda: world.gather(mine))
        furthest = max(given, key=lambda each: (each["claim"], each["version"]))
        source = given.index(furthest)
        own = state() if source == rank else None
        taken = world.collective(lambda: world.hand_over(own, source, self._device))
        any_failed = any(each["failed"] for each in given)
        return (taken if own is None else None), furthest["members"], any_failed
