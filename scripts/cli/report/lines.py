"""The newest lines of all ranks of a run, each with the ranks that it may be of, in one order."""

from collections import deque
from collections.abc import Iterator, Sequence
from re import compile as pattern
from typing import NamedTuple

from jobs.model.pytorchjob import Topology
from jobs.records.archive import Log, Run
from jobs.records.events import event_in

_MOST, _FEWEST, _OF_ONE = 20_000, 20, 1000
"""Lines of all ranks together, and at least and at most of one log."""
_LONGEST = 2000
_TAIL = 4 * 2**20
_BY_TORCH = pattern(r"\[rank(\d+)\]:")


class Line(NamedTuple):
    """A line, and whose it may be: several processes share a pod's log."""

    time: str
    ranks: str  # "1", or "2-3"
    text: str


def most(topology: Topology) -> int:
    """Return how many lines of one log are shown: the newest."""
    return max(_FEWEST, min(_OF_ONE, _MOST // topology.replicas))


def newest(runs: Sequence[Run], topology: Topology) -> list[Line]:
    """Return the newest lines of the runs' logs, in the order of time."""
    logs = [log for run in runs for log in run.logs()]
    found = (deque(_read(log, topology), maxlen=most(topology)) for log in logs)
    return sorted((line for lines in found for line in lines), key=lambda line: line.time)


def _read(log: Log, topology: Topology) -> Iterator[Line]:
    span, first = topology.span(log.replica), topology.first_rank(log.replica)
    for line in log.lines(_TAIL):
        rank = _rank(line.text)
        ranks = str(rank) if rank in range(first, first + topology.processes) else span
        text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]}…"
        yield Line(line.stamp, ranks, text)


def _rank(text: str) -> int | None:
    """Return the rank that a line names itself: as an event, or before it as torch does."""
    if (found := _BY_TORCH.match(text)) is not None:
        return int(found[1])
    rank = event_in(text).get("rank")
    return rank if isinstance(rank, int) else None
