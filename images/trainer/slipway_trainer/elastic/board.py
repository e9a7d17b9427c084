"""What workers write on each other's stores: who they are, their world, and the next one.

Every worker runs a store from its start. On its own it says who it is and which world it was in
last. On the store of the host, the worker through which the next world forms, newcomers knock, and
whoever comes first opens the next generation with a list of its guests.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from torch.distributed import Store


@dataclass(frozen=True)
class Member:
    """One life of a worker: a replacement has the same index and another incarnation."""

    index: int
    incarnation: str


@dataclass(frozen=True)
class Record:
    """A world that formed.

    Attributes:
        generation: Grows with each world of a job.
        members: In rank order.
        outcome: What the job came to, once all is done.
    """

    generation: int
    members: tuple[Member, ...]
    outcome: dict[str, Any] | None = None


@dataclass(frozen=True)
class Opening:
    """The next world, before it has formed.

    Attributes:
        generation: What it will have.
        guests: Incarnations of those who are expected.
        knocks: How many of the host's knocks were considered.
    """

    generation: int
    guests: tuple[str, ...]
    knocks: int


class Board:
    """A worker's store, seen by itself or by another."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def introduce(self, member: Member) -> None:
        """Say who the store's owner is."""
        self.store.set("owner", json.dumps(asdict(member)))

    def owner(self) -> Member:
        """Return who the store's owner is."""
        return Member(**json.loads(self.store.get("owner")))

    def publish(self, record: Record) -> None:
        """Say which world the owner is in."""
        self.store.set("world", json.dumps(asdict(record)))

    def record(self) -> Record | None:
        """Return the world that the owner was in last, None before its first."""
        if not self.store.check(["world"]):
            return None
        found = json.loads(self.store.get("world"))
        members = tuple(Member(**member) for member in found["members"])
        return Record(found["generation"], members, found["outcome"])

    def knock(self, newcomer: Member) -> None:
        """Ask the owner for a place in the next world."""
        self.store.append("knocks", json.dumps(asdict(newcomer)) + "\n")

    def knocks(self) -> list[Member]:
        """Return who knocked so far, in order."""
        if not self.store.check(["knocks"]):
            return []
        return [Member(**json.loads(line)) for line in self.store.get("knocks").splitlines()]

    def waiting(self) -> list[Member]:
        """Return who knocked after the last world was opened."""
        opening = self.opening()
        return self.knocks()[opening.knocks if opening is not None else 0 :]

    def opening(self) -> Opening | None:
        """Return the world that was opened last."""
        if not self.store.check(["opening"]):
            return None
        return _opening(self.store.get("opening"))

    def open(self, opening: Opening, instead_of: Opening | None) -> Opening:
        """Open a world, unless somebody else did so just now; return what is open then."""
        expected = "" if instead_of is None else json.dumps(asdict(instead_of))
        return _opening(self.store.compare_set("opening", expected, json.dumps(asdict(opening))))


def _opening(text: bytes) -> Opening:
    found = json.loads(text)
    return Opening(found["generation"], tuple(found["guests"]), found["knocks"])
