"""This worker's copy of the job: its model, the shared state, and its world.

If a job was split and both parts continued, the state follows the membership: all continue with the
model from the part whose world the others join, even if the other part has taken more steps.
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
    """A part of the training state: a model, an optimizer, a scheduler, a scaler, an average."""

    def state_dict(self) -> dict[str, Any]:
        """Return the part's state: tensors and JSON values."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Load a state that `state_dict` returned."""


@dataclass
class Shared:
    """The state that workers share, in addition to the model, the optimizer and the ledger."""

    agreed: dict[str, Any] = field(default_factory=dict)
    """The results that workers agreed on, keyed by `agree`'s argument `key`."""
    step_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds spent on the steps that the model results from, keyed by run ID."""
    losses: int = 0
    """The number of new worlds formed after losing workers."""
    reformations: int = 0
    """The number of new worlds formed after losses or for new workers."""
    indices: list[int] = field(default_factory=list)
    """Indices of all workers that have ever been in one of the job's worlds."""
    longest_pause: float = 0.0
    """The longest time in seconds that any worker spent between two steps; known at the end."""


@dataclass(frozen=True)
class Change:
    """A change to a new world, which a worker reports in its log."""

    generation: int
    size: int
    rank: int
    lost: int
    """The number of workers in the last world that are not in this one."""
    joined: int
    """The number of workers in this world that were not in the last one."""
    step: int
    """The number of optimizer steps applied to the model with which the world continues."""
    seconds: float
    """Seconds until this worker joined, from the failure or the decision to form a new world."""
    reason: str
    """The failure on this worker; empty if there was none."""


@dataclass(eq=False)
class Replica:
    """This worker's copy of the job's state, which the worker keeps from world to world."""

    service: RecordIndexService
    parts: Mapping[str, Stateful]
    on_change: Callable[[Change], None]
    step_timeout: timedelta
    join_timeout: timedelta
    device: torch.device
    """The device to which other workers' states are loaded."""

    def __post_init__(self) -> None:
        self.rank, self.size, self.shared = 0, 1, Shared()
        # Written in the background, so that no collective operation waits for a disk.
        self._disk = checkpoints.own_store(Events(own_rank()))
        self._late = False
        self._world: Record | None = None
        self._present: set[int] = set()
        self._settings = settings.read()
        settings.choose_interface(self._settings)
        # A world's members meet at this store, so the object must live as long as the replica.
        self._store = world.store(("127.0.0.1", 0), is_master=True)
        self.rendezvous = Rendezvous(self._settings, self._store.port)

    def form(self, reason: str, *, finishing: bool = False) -> None:
        """Form a world with all available workers, and adopt the most advanced state.

        `reason` is the failure, if any; if `finishing`, any number of workers is enough. Raises
        `TimeoutError` if too few join in time, `RuntimeError` if workers were lost too often.
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
                # The other workers' outcome; the model stays unchanged.
                self._late = True
                self.service.end(done.outcome["ledger"])
                self.shared = Shared(**done.outcome["shared"])
                self.rank = self.size = done.outcome["size"]
                return
            except WorldChanged as change:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"no stable world formed in {self.join_timeout}; last failure: {change}"
                    ) from change
        if self.shared.losses > self._settings.losses and not finishing:
            raise RuntimeError(
                f"workers were lost {self.shared.losses} times, but PET_MAX_RESTARTS allows only "
                f"{self._settings.losses}; last failure: {reason or 'see the other workers'}"
            )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Roll back all changes that the `with` body makes to this copy."""
        kept = copy.deepcopy(self._states())
        try:
            yield
        finally:
            self._load(kept)

    def finish(self, pause: float) -> None:
        """Wait until all workers are done, share the longest `pause`, and inform late workers."""
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
            # One worker is enough to wait for them; the others exit now.
            if missing and self.rank == self.size - 1:
                self.rendezvous.linger(missing, seconds=20.0)
            return

    def _enter(self, seconds: float, least: int, began: float, reason: str) -> None:
        """Enter the next world with the most advanced state.

        Raises `JobDone`, `TimeoutError` or `WorldChanged`.
        """
        record, address = self.rendezvous.next_world(seconds, least)
        members, size = record.members, len(record.members)
        rank = members.index(self.rendezvous.me)
        world.enter(record, rank, address, self.step_timeout)
        self.rendezvous.publish(record)
        last = self._world
        # A worker without a world has no claim; a worker that was left out has an older claim.
        claim, former = ((0, 0, 0), ()) if last is None else (last.claim, last.members)
        progress = [*claim, self.service.ledger.version]
        mine = {"progress": progress, "members": former, "failed": bool(reason)}
        answers, furthest, state = world.follow_furthest(mine, self._state, self.device)
        if state is not None:
            self._take(state)
        self._world, self.rank, self.size = record, rank, size
        self.service.enter(rank, size)
        before, now = {*furthest["members"]}, {*members}
        self._present = {*map(index_of, members)}
        self.shared.losses += any(each["failed"] for each in answers)
        self.shared.reformations += bool(before)
        self.shared.indices = sorted(self._present.union(self.shared.indices))
        # Workers that do not get this far are behind the others.
        self.service.ledger.version += 1
        seconds, step = round(time.monotonic() - began, 3), self.service.ledger.step
        lost, joined = len(before - now), len(now - before)
        if self._disk is not None and step > 0 and not before:  # the first world of all
            self._disk.resumed(step)
        self.on_change(Change(record.generation, size, rank, lost, joined, step, seconds, reason))

    def resume(self) -> None:
        """Resume from the newest checkpoint, if any, before the first world."""
        state = None if self._disk is None else self._disk.newest()
        if state is not None:
            self._take(state)
            # These refer to the previous run's workers.
            self.shared.losses, self.shared.indices = 0, []

    def checkpoint(self) -> None:
        """Write a checkpoint between two steps, on rank 0, if one is due."""
        if self._disk is not None and self.rank == 0:
            self._disk.write_if_due(self._state, self.service.ledger.step)

    def close(self) -> None:
        """Wait for the current checkpoint, and leave the world."""
        if self._disk is not None:
            self._disk.settle()
        # So that the others notice immediately, and Gloo's threads don't outlive the interpreter.
        world.leave()

    def _take(self, state: dict[str, Any]) -> None:
        """Continue from another worker's state, or from a checkpoint."""
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
                f"this worker trains {', '.join(self.parts)}, but the other workers train "
                f"{', '.join(states)}; run the same program on all workers"
            )
        for name, part in self.parts.items():
            part.load_state_dict(states[name])

    def _knowledge(self) -> dict[str, Any]:
        return {"ledger": self.service.ledger.dump(), "shared": asdict(self.shared)}
