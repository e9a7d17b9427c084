"""This worker's copy of the job: what it trains, what all workers know alike, and its world.

Where a job was split, and its parts went on, the state follows the membership: the part whose world
the others join is the one whose model all go on with, however many steps another part has made.
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from slipway import checkpoints
from slipway.events import Events, own_rank
from slipway_trainer.data.index_service import RecordIndexService
from slipway_trainer.elastic import world
from slipway_trainer.elastic.world import WorldChanged
from slipway_trainer.membership import settings
from slipway_trainer.membership.board import Record, index_of
from slipway_trainer.membership.rendezvous import JobDone, Rendezvous


class Stateful(Protocol):
    """A part of what is trained: a model, an optimizer, a scheduler, a scaler, an average."""

    def state_dict(self) -> dict[str, Any]:
        """Return its state: tensors, and what JSON can hold."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take over such a state."""


@dataclass
class Shared:
    """What the workers know alike besides model, optimizer and ledger; part of the state."""

    agreed: dict[str, Any] = field(default_factory=dict)
    """Results of `agree`, by key."""
    step_seconds: dict[str, float] = field(default_factory=dict)
    """Time in steps that are in the model, by the run that made them."""
    losses: int = 0
    """How often the world formed again because a worker was lost."""
    reformations: int = 0
    """How often it formed again, for losses and for newcomers."""
    indices: list[int] = field(default_factory=list)
    """Of all workers that there ever were."""
    longest_pause: float = 0.0
    """Seconds, the longest that a worker was between two steps; known at the end."""


@dataclass(frozen=True)
class Change:
    """A world that formed: what a worker's log should say about it."""

    generation: int
    size: int
    rank: int
    lost: int
    """How many workers of the last world are not in it."""
    joined: int
    """How many of its workers were not in the last one."""
    step: int
    """Optimizer steps in the model that it goes on with."""
    seconds: float
    """How long this worker took into it, from the failure or the decision on."""
    reason: str
    """What failed on this worker; empty when nothing did."""


@dataclass(eq=False)
class Replica:
    """One copy of the job's state, which moves from one world to the next."""

    service: RecordIndexService
    parts: Mapping[str, Stateful]
    on_change: Callable[[Change], None]
    step_timeout: timedelta
    join_timeout: timedelta
    device: torch.device
    """Where states are loaded to that others hand over."""

    def __post_init__(self) -> None:
        self.rank, self.size, self.shared = 0, 1, Shared()
        # Beside the training: the other workers wait in no collective operation for a disk.
        self._disk = checkpoints.own_store(Events(own_rank()))
        self._late = False
        self._world: Record | None = None
        self._present: set[int] = set()
        self._settings = settings.read()
        settings.choose_interface(self._settings)
        # Worlds can form here from now on; the object must live as long as that.
        self._store = world.store(("127.0.0.1", 0), is_master=True)
        self.rendezvous = Rendezvous(self._settings, self._store.port)

    def form(self, reason: str, *, finishing: bool = False) -> None:
        """Come together with all who are there, and go on from the state of the furthest.

        `reason` is what failed, or empty; when `finishing`, any number of workers will do. Raises
        `TimeoutError` where too few came in time, `RuntimeError` where they were lost too often.
        """
        least = 1 if finishing else self._settings.minimum
        began = time.monotonic()
        end = began + self.join_timeout.total_seconds()
        while True:
            world.leave()
            try:
                self._enter(max(1.0, end - time.monotonic()), least, began, reason)
                break
            except JobDone as done:
                # What the others came to; the model stays what it is.
                self._late = True
                self.service.end(done.outcome["ledger"])
                self.shared = Shared(**done.outcome["shared"])
                self.rank = self.size = done.outcome["size"]
                return
            except WorldChanged as change:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"no world held for {self.join_timeout}; the last one: {change}"
                    ) from change
        if self.shared.losses > self._settings.losses and not finishing:
            raise RuntimeError(
                f"workers were lost {self.shared.losses} times, PET_MAX_RESTARTS allows "
                f"{self._settings.losses}; the last time: {reason or 'see the others'}"
            )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Take back whatever happens to this copy meanwhile."""
        kept = copy.deepcopy(self._states())
        try:
            yield
        finally:
            self._load(kept)

    def finish(self, pause: float) -> None:
        """Wait until all are done, tell their replacements, and share the longest `pause`."""
        while not self._late:
            longest = torch.tensor([pause], dtype=torch.float64)
            try:
                world.collective(lambda: dist.all_reduce(longest, op=dist.ReduceOp.MAX))  # noqa: B023
            except WorldChanged as change:
                self.form(str(change), finishing=True)
                continue
            self.shared.longest_pause = float(longest)
            self.rendezvous.conclude({"size": self.size, **self._knowledge()})
            world.leave()
            missing = set(self.shared.indices) - self._present
            # One worker is enough for that; the others, and with them the job, end now.
            if missing and self.rank == self.size - 1:
                self.rendezvous.linger(missing, seconds=20.0)
            return

    def _enter(self, seconds: float, least: int, began: float, reason: str) -> None:
        """Enter the next world with the furthest state; raises as `next_world` or `collective`."""
        record, address = self.rendezvous.next_world(seconds, least)
        members, size = record.members, len(record.members)
        rank = members.index(self.rendezvous.me)
        world.enter(record, rank, address, self.step_timeout)
        self.rendezvous.publish(record)
        last = self._world
        # A worker without a world claims nothing; one that was left behind has an older one.
        claim, former = ((0, 0, 0), ()) if last is None else (last.claim, last.members)
        progress = [*claim, self.service.ledger.version]
        mine = {"progress": progress, "members": former, "failed": bool(reason)}
        given, furthest, state = world.follow_furthest(mine, self._state, self.device)
        if state is not None:
            self._take(state)
        self._world, self.rank, self.size = record, rank, size
        self.service.enter(rank, size)
        before, now = {*furthest["members"]}, {*members}
        self._present = {*map(index_of, members)}
        self.shared.losses += any(each["failed"] for each in given)
        self.shared.reformations += bool(before)
        self.shared.indices = sorted(self._present.union(self.shared.indices))
        # Who does not come to here is behind those that do.
        self.service.ledger.version += 1
        seconds, step = round(time.monotonic() - began, 3), self.service.ledger.step
        lost, joined = len(before - now), len(now - before)
        self.on_change(Change(record.generation, size, rank, lost, joined, step, seconds, reason))

    def resume(self) -> None:
        """Go on from the newest checkpoint, where the job has some; before the first world."""
        state = None if self._disk is None else self._disk.newest()
        if state is not None:
            self._take(state)
            # These are of workers that are gone.
            self.shared.losses, self.shared.indices = 0, []

    def checkpoint(self) -> None:
        """Write a checkpoint as rank 0, if one is due; between two steps."""
        if self._disk is not None and self.rank == 0:
            self._disk.write_if_due(self._state, self.service.ledger.step)

    def close(self) -> None:
        """Wait for the checkpoint that is being written, and leave the world."""
        if self._disk is not None:
            self._disk.settle()
        # The others notice at once, and Gloo's threads must not outlive the interpreter.
        world.leave()

    def _take(self, state: dict[str, Any]) -> None:
        """Go on from the state that another worker had."""
        self.service.take(state["ledger"])
        self._load(state["parts"])
        self.shared = Shared(**state["shared"])

    def _state(self) -> dict[str, Any]:
        return {"parts": self._states(), **self._knowledge()}

    def _states(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()}

    def _load(self, states: dict[str, Any]) -> None:
        if states.keys() != self.parts.keys():
            raise RuntimeError(
                f"this worker trains {', '.join(self.parts)}, the others {', '.join(states)}; run "
                "the same program on all workers"
            )
        for name, part in self.parts.items():
            part.load_state_dict(states[name])

    def _knowledge(self) -> dict[str, Any]:
        return {"ledger": self.service.ledger.dump(), "shared": asdict(self.shared)}
