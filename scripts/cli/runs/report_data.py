"""Data that a run's ranks reported, from logs or records: curves, and the latest log lines."""

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite, nan
from statistics import median
from typing import Any, NamedTuple

from jobs.api.lines import seconds_between
from jobs.model.pytorchjob import Topology
from jobs.records.archive import Log, Run
from jobs.records.events import Event, event_in, events_of, figure, numbers
from jobs.records.history import epochs

ALL = -1  # in place of a rank: for values that are common to all ranks
_MOST_BYTES, _LEAST_BYTES = 2**28, 2**20  # tail sizes: of all logs together, and at least of one
_MOST_POINTS = 20_000
_FEWEST, _MOST = 25, 400
_RATE = "samples_per_second"
_MOST_LINES, _FEWEST_LINES, _OF_ONE = 20_000, 20, 1000
"""Numbers of lines to show: from all ranks together, and at least and at most from one log."""
_LONGEST = 2000


@dataclass
class Curve:
    """One metric's values by rank, then by position on the x axis, which is labeled `axis`."""

    name: str
    axis: str = "epoch"
    by_rank: dict[int, dict[float, float]] = field(default_factory=dict)

    @property
    def places(self) -> list[float]:
        """The positions on the x axis to draw, thinned out evenly if there are too many."""
        every = sorted({x for points in self.by_rank.values() for x in points})
        most = min(_MOST, max(_FEWEST, _MOST_POINTS // max(1, len(self.by_rank))))
        if len(every) <= most:
            return every
        return [every[round(each * (len(every) - 1) / (most - 1))] for each in range(most)]

    def spread(self, x: float) -> tuple[float, float, float]:
        """Return the minimum, median and maximum over all ranks at a position on the x axis."""
        values = [points[x] for points in self.by_rank.values() if isfinite(points.get(x, nan))]
        return (min(values), median(values), max(values)) if values else (nan, nan, nan)


@dataclass
class Series:
    """Everything that a run's ranks reported."""

    curves: dict[str, Curve] = field(default_factory=dict)  # by the name of the figure
    epochs: Sequence[Mapping[str, Any]] = ()  # see `jobs.records.history.epochs`
    is_cut: bool = False  # whether the beginning of a very long log was skipped

    def add(self, name: str, rank: int, x: float, value: object, axis: str = "epoch") -> None:
        """Add or replace a point on a metric's curve, if the value is a number."""
        if (y := figure(value)) is not None:
            self.curves.setdefault(name, Curve(name, axis)).by_rank.setdefault(rank, {})[x] = y


def of_logs(run: Run, recorded: Sequence[Mapping[str, Any]] = ()) -> Series:
    """Return the metrics in the logs of a run's ranks; `recorded` lists epochs already known."""
    series, logs = Series(epochs=recorded or epochs(run)), run.logs()
    tail = max(_LEAST_BYTES, _MOST_BYTES // max(1, len(logs)))
    readers: dict[tuple[int, int], _Rank] = {}
    for log in logs:
        with suppress(OSError):
            series.is_cut |= log.is_cut or log.path.stat().st_size > tail
        for event in events_of(log, ("step", "validation", "epoch", "metrics"), tail):
            rank = event.get("rank")
            if isinstance(rank, int):
                readers.setdefault((log.replica, rank), _Rank(rank, series)).add_event(event)
    return series


def of_record(recorded: Sequence[Mapping[str, Any]], histories: Mapping[str, Any]) -> Series:
    """Return the metrics that were recorded for each epoch of a run whose logs are deleted."""
    series = Series(epochs=recorded)
    for epoch in recorded:
        for name in ("loss", "accuracy", _RATE):
            series.add(name, ALL, epoch["epoch"], epoch.get(name))
    for name, values in histories.items():
        for number, value in enumerate(values, 1):
            series.add(name, ALL, number, value)
    return series


@dataclass
class _Rank:
    """Adds one rank's events to a series, in the order in which they were logged."""

    rank: int
    series: Series
    _steps: int | None = None  # of an epoch
    _before: Event | None = None  # the step before
    _reports: int = 0

    def add_event(self, event: Event) -> None:
        kind, epoch = event["event"], event.get("epoch")
        if kind == "metrics":
            self._add_metrics(event)
        elif not isinstance(epoch, int):
            return
        elif kind == "step":
            self._add_step(event, epoch)
        elif kind == "epoch":
            self._before = None
            if self._steps is None:
                self.series.add("loss", self.rank, epoch, event.get("rank_loss"))
        elif self.rank == 0:
            done = figure(event.get("step"))
            x = epoch - 1 + min(1.0, done / self._steps) if done and self._steps else epoch
            for name in ("accuracy", "top5_accuracy", "test_loss"):
                self.series.add(name, ALL, x, event.get(name))

    def _add_step(self, event: Event, epoch: int) -> None:
        steps, step = event.get("steps"), figure(event.get("step"))
        if isinstance(steps, int) and steps > 0 and step is not None:
            self._steps, axis, x = steps, "epoch", epoch - 1 + (step + 1) / steps
        else:
            self._reports += 1
            self._steps, axis, x = 1, "report number", float(self._reports)
        self.series.add("loss", self.rank, x, event.get("loss"), axis)
        before, self._before = self._before, event
        if before is not None and before.get("epoch") == epoch:
            seconds = seconds_between(before.get("time"), event.get("time"))
            samples = (figure(event.get("samples")) or 0) - (figure(before.get("samples")) or 0)
            if seconds is not None and seconds > 0 and samples > 0:
                self.series.add(_RATE, self.rank, x, samples / seconds, axis)

    def _add_metrics(self, event: Event) -> None:
        self._reports += 1
        places = {name: figure(event.get(name)) for name in ("step", "epoch")}
        x_by_name = {name: x for name, x in places.items() if x is not None}
        axis, x = next(iter(x_by_name.items()), ("report number", float(self._reports)))
        for name, value in numbers(event.get("metrics")).items():
            self.series.add(name, self.rank, x, value, axis)


class Line(NamedTuple):
    """A log line and the ranks that may have printed it, as processes in a pod share its log."""

    time: str
    ranks: str  # "1", or "2-3"
    text: str


def most_lines(topology: Topology) -> int:
    """Return how many of the latest lines from each log are shown."""
    return max(_FEWEST_LINES, min(_OF_ONE, _MOST_LINES // topology.replicas))


def newest_lines(runs: Sequence[Run], topology: Topology) -> list[Line]:
    """Return the latest lines from the logs of `runs`, in chronological order."""
    logs = [log for run in runs for log in run.logs()]
    newest = (deque(_lines(log, topology), maxlen=most_lines(topology)) for log in logs)
    return sorted((line for lines in newest for line in lines), key=lambda line: line.time)


def _lines(log: Log, topology: Topology) -> Iterator[Line]:
    span, first = topology.span(log.replica), topology.first_rank(log.replica)
    own = range(first, first + topology.processes)
    for line in log.lines(4 * 2**20):
        # A line may name its rank: as an event, or in a prefix, as torch writes it.
        prefix = re.match(r"\[rank(\d{1,9})\]:", line.text)
        rank = event_in(line.text).get("rank") if prefix is None else int(prefix[1])
        ranks = str(rank) if isinstance(rank, int) and rank in own else span
        text = line.text if len(line.text) <= _LONGEST else f"{line.text[:_LONGEST]}…"
        yield Line(line.stamp, ranks, text)
