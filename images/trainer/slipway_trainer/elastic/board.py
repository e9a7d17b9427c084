"""What a worker tells all others, from its start to its end, and what they can ask of it.

Each worker has a board, in memory. On it stands who the worker is and which world it was in last.
Where the worker is the host, the one through which the next world forms, newcomers knock there,
and whoever comes first opens the next generation with a list of its guests.
"""

import threading
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, order=True)
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
        return self.generation, len(self.members), -self.host.index

    @property
    def host(self) -> Member:
        """The first of the members, by index."""
        return min(self.members)


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

    def invites(self, member: Member) -> bool:
        """Return whether `member` is among the guests."""
        return member.incarnation in self.guests


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

    def ask(
        self, reader: int, knock: Member | None = None, opening: Opening | None = None
    ) -> Snapshot:
        """Return what stands here afterwards.

        Args:
            reader: Index of the worker that asks.
            knock: Who asks for a place in the next world.
            opening: A world to open, unless its generation was opened already.
        """
        with self._lock:
            content = self.content
            if knock is not None:
                content = replace(content, knocks=(*content.knocks, knock))
            last = content.opening
            if opening is not None and (last is None or last.generation < opening.generation):
                content = replace(content, opening=opening)
            if content.record is not None and content.record.outcome is not None:
                self.told.add(reader)
            self.content = content
            return content

    def publish(self, record: Record) -> None:
        """Say which world the owner is in."""
        with self._lock:
            self.content = replace(self.content, record=record)
