"""The newest lines of all ranks of a run, each with the ranks that it is of, in one order."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from re import compile as pattern

from jobs.judge.progress import reported
from jobs.logs.archive import Log, Run
from jobs.topology import Topology

_MOST, _FEWEST, _OF_ONE = 20_000, 20, 1000
"""Lines of all ranks together, and at least and at most of one replica."""
_LONGEST = 2000
_TAIL = 4 * 2**20
_BY_TORCH = pattern(r"\[rank(\d+)\]:")


@dataclass(frozen=True)
class Shown:
    """A line of a log.

    Args:
        ranks: Whose it may be, from the first to the last: several processes share a pod's log.
    """

    time: str
    ranks: tuple[int, int]
    text: str

    @property
    def span(self) -> str:
        """Its ranks as text: "1", or "2-3"."""
        first, last = self.ranks
        return f"{first}" if first == last else f"{first}-{last}"


@dataclass(frozen=True)
class Lines:
    """The lines that are shown, in the order of time.

    Args:
        most: How many of one replica these are at most: the newest.
        left_out: Whether that left out any.
    """

    shown: Sequence[Shown]
    most: int
    left_out: bool


def newest(runs: Sequence[Run], topology: Topology) -> Lines:
    """Return the newest lines of the runs."""
    most = max(_FEWEST, min(_OF_ONE, _MOST // topology.replicas))
    by_replica: dict[int, deque[Shown]] = {}
    left_out = any(log.path.stat().st_size > _TAIL for run in runs for log in run.logs())
    for run in runs:
        # A container that was started again has a log of its own.
        logs = merge(*(_read(log, topology) for log in run.logs()), key=lambda each: each[1].time)
        for replica, line in logs:
            kept = by_replica.setdefault(replica, deque(maxlen=most))
            left_out |= len(kept) == most
            kept.append(line)
    every = (line for lines in by_replica.values() for line in lines)
    return Lines(sorted(every, key=lambda line: line.time), most, left_out)


def _read(log: Log, topology: Topology) -> Iterator[tuple[int, Shown]]:
    first = topology.first_rank(log.replica)
    last = first + topology.processes - 1
    for line in log.lines(_TAIL):
        rank = _rank(line.text) if topology.processes > 1 else None
        known = rank is not None and first <= rank <= last
        ranks = (rank, rank) if known and rank is not None else (first, last)
        text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]}…"
        yield log.replica, Shown(f"{line.stamp[:23]}Z", ranks, text)


def _rank(text: str) -> int | None:
    """Return the rank that a line names itself: as an event, or before it as torch does."""
    if (found := _BY_TORCH.match(text)) is not None:
        return int(found[1])
    rank = reported(text).get("rank")
    return rank if isinstance(rank, int) else None
