"""This worker's copy of the job: what it trains, what all workers know alike, and its world."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
import torch.distributed as dist

from slipway_trainer.elastic import settings, world
from slipway_trainer.elastic.membership import Entered, Limits, Membership
from slipway_trainer.elastic.rendezvous import JobDone
from slipway_trainer.elastic.service import RecordIndexService
from slipway_trainer.elastic.world import WorldChanged

_LINGER_SECONDS = 20.0
"""How long replacements of lost workers can still be told that the job is done."""


class Stateful(Protocol):
    """A part of what is trained: a model, an optimizer, a scheduler, a scaler, an average."""

    def state_dict(self) -> dict[str, Any]:
        """Return its state: tensors, and what JSON can hold."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take over such a state."""


@dataclass
class Shared:
    """What the workers know alike besides model, optimizer and ledger; part of the state.

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


class Replica:
    """One copy of the job's state, which moves from one world to the next.

    Args:
        service: Has the ledger.
        parts: What is trained, by name; the same names on all workers.
        limits: How long to wait.
        on_change: Called with each world that formed.
        device: Where states that others hand over are loaded to.

    Attributes:
        rank: This worker's rank in the world; that is `size` where the job was done without it.
        size: How many workers the world has.
        shared: What all workers know alike.
    """

    def __init__(
        self,
        service: RecordIndexService,
        parts: Mapping[str, Stateful],
        limits: Limits,
        on_change: Callable[[Change], None],
        device: torch.device,
    ) -> None:
        self.rank, self.size, self.shared = 0, 1, Shared()
        self._service, self._parts = service, parts
        self._on_change = on_change
        self._late = False
        self._present: set[int] = set()
        self._settings = settings.read()
        self._membership = Membership(self._settings, limits, device)

    def newcomers(self) -> bool:
        """Return whether somebody waits here to be let in."""
        return self._membership.rendezvous.newcomers()

    def form(self, reason: str, *, finishing: bool = False) -> None:
        """Come together with all who are there, and go on from the state of the furthest.

        Args:
            reason: What failed; empty when nothing did.
            finishing: Nothing is left to train, so any number of workers will do.

        Raises:
            TimeoutError: too few workers came in time.
            RuntimeError: workers were lost too often.
        """
        least = 1 if finishing else self._settings.minimum
        version = self._service.ledger.version
        try:
            entered = self._membership.next_world(reason, version, self._dump, least)
        except JobDone as done:
            self._end(done.outcome)
            return
        self._enter(entered)
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
        """Wait until all workers are done, and tell their replacements.

        Until all are, each of them can still give its state to one that is behind.

        Args:
            pause: This worker's longest time between two steps; the longest of all is shared.
        """
        while not self._late:
            longest = torch.tensor([pause], dtype=torch.float64)
            try:
                world.collective(lambda: dist.all_reduce(longest, op=dist.ReduceOp.MAX))  # noqa: B023
            except WorldChanged as change:
                self.form(str(change), finishing=True)
                continue
            self.shared.longest_pause = float(longest)
            self._membership.rendezvous.conclude({"size": self.size, **self._knowledge()})
            world.leave()
            missing = set(self.shared.indices) - self._present
            # One worker is enough for that; the others, and with them the job, end now.
            if missing and self.rank == self.size - 1:
                self._membership.rendezvous.tell(missing, _LINGER_SECONDS)
            return

    def _enter(self, entered: Entered) -> None:
        mine, state = self._membership.me, entered.state
        if state is not None:
            self._load(state["parts"])
            self.shared = Shared(**state["shared"])
        ledger = self._service.ledger.dump() if state is None else state["ledger"]
        members = [member.incarnation for member in entered.record.members]
        self._service.enter(mine, members, ledger)
        self.rank, self.size = entered.rank, len(members)
        self.shared.losses += entered.failed
        self.shared.reformations += bool(entered.before)
        self._present = {member.index for member in entered.record.members}
        self.shared.indices = sorted(self._present.union(self.shared.indices))
        self._on_change(
            Change(
                generation=entered.record.generation,
                size=self.size,
                rank=self.rank,
                lost=len(set(entered.before) - set(members)),
                joined=len(set(members) - set(entered.before)),
                step=self._service.ledger.step,
                seconds=round(entered.seconds, 3),
                reason=entered.reason,
            )
        )

    def _end(self, outcome: dict[str, Any]) -> None:
        """Take over what the others came to; the model stays what it is."""
        self._late = True
        self._service.end(outcome["ledger"])
        self.shared = Shared(**outcome["shared"])
        self.rank = self.size = outcome["size"]

    def _dump(self) -> dict[str, Any]:
        return {"parts": self._states(), **self._knowledge()}

    def _states(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts.items()}

    def _load(self, states: dict[str, Any]) -> None:
        if states.keys() != self._parts.keys():
            raise RuntimeError(
                f"this worker trains {', '.join(self._parts)}, the others {', '.join(states)}; run "
                "the same program on all workers"
            )
        for name, part in self._parts.items():
            part.load_state_dict(states[name])

    def _knowledge(self) -> dict[str, Any]:
        return {"ledger": self._service.ledger.dump(), "shared": asdict(self.shared)}
