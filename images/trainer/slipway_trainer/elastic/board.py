"""What a worker tells all others, from its start to its end, and what they can ask of it.

Each worker has a board, in memory. On it stands who the worker is and which world it was in last.
Where the worker is the host, the one through which the next world forms, newcomers knock there,
and whoever comes first opens the next generation with a list of its guests.
"""

import threading
from dataclasses import asdict, dataclass, field, replace
from typing import Any


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

    @property
    def claim(self) -> tuple[int, int, int]:
        """What decides between two worlds: the newer, the larger, that of the first worker."""
        first = min(member.index for member in self.members)
        return self.generation, len(self.members), -first


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


@dataclass(frozen=True)
class Snapshot:
    """What stands on a board.

    Attributes:
        owner: Whose it is.
        store_port: Where the owner's store listens, through which worlds form.
        record: The world that the owner was in last, None before its first.
        opening: The world that was opened here last.
        knocks: Who knocked so far, in order.
    """

    owner: Member
    store_port: int
    record: Record | None = None
    opening: Opening | None = None
    knocks: tuple[Member, ...] = ()

    @property
    def waiting(self) -> tuple[Member, ...]:
        """Who knocked after the last world was opened."""
        return self.knocks[self.opening.knocks if self.opening is not None else 0 :]


@dataclass
class Board:
    """A worker's own board; other workers reach it through `slipway_trainer.elastic.bulletin`."""

    content: Snapshot
    told: set[int] = field(default_factory=set)
    """Indices of the workers that have read it since its record said the job is done."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, reader: int) -> Snapshot:
        """Return what stands here."""
        with self._lock:
            if self.content.record is not None and self.content.record.outcome is not None:
                self.told.add(reader)
            return self.content

    def publish(self, record: Record) -> None:
        """Say which world the owner is in."""
        with self._lock:
            self.content = replace(self.content, record=record)

    def knock(self, newcomer: Member) -> Snapshot:
        """Ask the owner for a place in the next world."""
        with self._lock:
            self.content = replace(self.content, knocks=(*self.content.knocks, newcomer))
            return self.content

    def open(self, opening: Opening) -> Snapshot:
        """Open a world, unless its generation was opened already."""
        with self._lock:
            last = self.content.opening
            if last is None or last.generation < opening.generation:
                self.content = replace(self.content, opening=opening)
            return self.content


def pack(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as JSON has it."""
    return asdict(snapshot)


def unpack(packed: dict[str, Any]) -> Snapshot:
    """Return the snapshot that `pack` gave."""
    record, opening = packed["record"], packed["opening"]
    return Snapshot(
        Member(**packed["owner"]),
        packed["store_port"],
        record
        and Record(
            record["generation"],
            tuple(Member(**member) for member in record["members"]),
            record["outcome"],
        ),
        opening and Opening(opening["generation"], tuple(opening["guests"]), opening["knocks"]),
        tuple(Member(**member) for member in packed["knocks"]),
    )
