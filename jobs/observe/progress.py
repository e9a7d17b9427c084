"""What a run's ranks report in their logs while they train: rank 0's progress, and slow ranks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.process import printable
from jobs.api.lines import seconds_between
from jobs.records.events import event_in, figure, numbers
from slipway.pace import OWN

_LONGEST_LINE = 80
_TRAINS = frozenset({"step", "epoch", "metrics"})  # events that show that training is in progress


@dataclass
class Point:
    """A step, or the end of an epoch, that an event reported; see docs/results.md."""

    event: Mapping[str, Any]
    epoch: int  # from 1

    def __post_init__(self) -> None:
        event, kind, own = self.event, self.event["event"], numbers(self.event.get("metrics"))
        step, steps = _count(event.get("step")), _count(event.get("steps"))
        self.ends_its_epoch = kind == "epoch" or (kind == "metrics" and step is None)
        # From 0; past all steps at the end of an epoch.
        self.step = float("inf") if self.ends_its_epoch else step or 0
        share = None if step is None or not steps else min(1.0, (step + 1) / steps)
        self.share = 1.0 if self.ends_its_epoch else share  # the completed part of the epoch
        self.at = event.get("time")
        self.samples = _count(event.get("samples"))  # that rank 0 trained on so far in this epoch
        self.loss = figure(event.get("loss", own.pop("loss", None)))
        self.accuracy = figure(event.get("accuracy", own.pop("accuracy", None)))
        self.rate = figure(event.get("samples_per_second"))  # of rank 0
        self.others = own


@dataclass
class Progress:
    """The training progress of one run so far."""

    world_size: int
    has_stepped: bool = False  # whether it has trained at all
    resumed: int | None = None  # the step of the checkpoint that it resumed from
    warnings: list[str] = field(default_factory=list)
    _epochs: int | None = None
    _first: Point | None = None  # of the run, from which the pace is measured
    _begun: Point | None = None  # of the epoch
    _latest: Point | None = None
    _ended: Point | None = None  # the end of the latest complete epoch
    _line: str = ""

    @property
    def epochs_done(self) -> int:
        return 0 if self._ended is None else self._ended.epoch

    def see(self, line: str) -> None:
        """Process a log line, which may be an event."""
        event = event_in(line)
        trains, epoch = event.get("event") in _TRAINS, _count(event.get("epoch"))
        self.has_stepped |= trains
        if event.get("event") == "started":
            self._epochs = _count(event.get("epochs"))
        elif trains and epoch is not None:
            self._see(Point(event, epoch))
        elif event.get("event") == "metrics":
            self._line = ", ".join(_shown(numbers(event.get("metrics")))) or self._line
        elif event.get("event") == "resumed":
            self.resumed = _count(event.get("step"))
        elif event.get("event") == "warning" and len(self.warnings) < 10:
            self.warnings.append(str(event.get("warning")))
        elif "event" not in event:
            # A progress bar redraws itself after a carriage return.
            drawn = (printable(each).strip() for each in reversed(line.split("\r")))
            self._line = next(filter(None, drawn), self._line)

    def _see(self, point: Point) -> None:
        latest = self._latest
        # An interrupted log is read again from its beginning.
        if latest is not None and (point.epoch, point.step) < (latest.epoch, latest.step):
            return
        if latest is not None and (point.epoch, point.step) == (latest.epoch, latest.step):
            point.loss = latest.loss if point.loss is None else point.loss
            point.accuracy = latest.accuracy if point.accuracy is None else point.accuracy
            point.others = {**latest.others, **point.others}
        self._first = self._first or point
        if latest is None or point.epoch != latest.epoch:
            self._begun = point
        self._latest = point
        if point.ends_its_epoch:
            self._ended = point

    def __str__(self) -> str:
        """Describe the progress in one line; return an empty string if none was reported."""
        point = self._latest
        begun = "" if self.resumed is None else f"resumed from step {self.resumed}"
        if point is None:
            last = f"last line: {_cut(self._line)}" if self._line else ""
            return ", ".join(filter(None, (begun, last)))
        of = "" if self._epochs is None else f"/{self._epochs}"
        is_within = not point.ends_its_epoch and point.share is not None
        at = f" at {point.share:.0%}" if is_within else ""
        parts = [f"epoch {point.epoch}{of}{at}", *self._figures(point), self._left(point), begun]
        return ", ".join(filter(None, parts))

    def _figures(self, point: Point) -> list[str]:
        accuracy = None if self._ended is None else self._ended.accuracy
        after = "" if point.ends_its_epoch else f" after epoch {self.epochs_done}"
        begun = self._begun or point
        within = _pace(begun, begun.samples, point, point.samples)
        rate = point.rate if point.ends_its_epoch else within
        return [
            "" if point.loss is None else f"loss {point.loss:.4f}",
            "" if accuracy is None else f"accuracy {accuracy:.4f}{after}",
            *_shown(point.others),
            "" if rate is None else f"{rate * self.world_size:,.0f} samples/s",
        ]

    def _left(self, point: Point) -> str:
        """Describe the remaining time at the pace so far; return an empty string if unknown."""
        first, done = self._first or point, self._done(point)
        pace = _pace(first, self._done(first), point, done)
        if done is None or pace is None or pace <= 0 or done >= 1:
            return ""
        return f"about {duration((1 - done) / pace)} left"

    def _done(self, point: Point) -> float | None:
        if not self._epochs or point.share is None:
            return None
        return (point.epoch - 1 + point.share) / self._epochs


@dataclass
class Paces:
    """The step times reported by a run's ranks, and the ranks for which the others wait.

    These are found by the time in each step that a rank does not spend waiting for others.
    """

    world_size: int
    slow: dict[int, str] = field(default_factory=dict)
    """A description of each slow rank, keyed by rank, from when it was first found to be slow."""
    now: set[int] = field(default_factory=set)  # the ranks that are slow now
    _latest: dict[int, Mapping[str, float]] = field(default_factory=dict)

    def see(self, line: str) -> None:
        """Process a line from any rank's log, which may report step times."""
        if '"event": "pace"' not in line:
            return
        event = event_in(line)
        rank, parts = event.get("rank"), numbers(event.get("seconds_in"))
        if isinstance(rank, int) and parts:
            was_complete = len(self._latest) >= self.world_size
            self._latest[rank] = parts
            if len(self._latest) >= self.world_size > 1:
                for each in (rank,) if was_complete else [*self._latest]:
                    self._judge(each)

    def _judge(self, rank: int) -> None:
        from statistics import median  # noqa: PLC0415  # commands import this module for `duration`

        parts = self._latest[rank]
        own = {
            each: sum(parts[name] for name in OWN & parts.keys())
            for each, parts in self._latest.items()
        }
        others = median(own[each] for each in own if each != rank)
        waited_for = own[rank] - others
        self.now.discard(rank)
        # A rank counts only if the others wait at least a tenth of a step for it.
        if own[rank] >= 1.5 * others and waited_for >= 0.1 * sum(parts.values()):
            self.now.add(rank)
            where = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in parts.items())
            text = f"slower than the others, which wait {waited_for:.3g} s in each step: {where}"
            self.slow.setdefault(rank, f"{own[rank] / max(others, 1e-6):.1f} times {text}")

    def __str__(self) -> str:
        """Return text that lists the ranks that are slow now, to append to a status row."""
        listed = ", ".join(f"rank {rank}" for rank in sorted(self.now))
        return f"; slower than the others: {listed}" if listed else ""


def _shown(figures: Mapping[str, float]) -> list[str]:
    return [
        f"{_cut(' '.join(printable(name).split()))} {value:.6g}"
        for name, value in list(figures.items())[:3]
    ]


def duration(seconds: float) -> str:
    """Format a duration in its two largest units, omitting the second one if it is 0."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min".removesuffix(" 0 min")
    return f"{minutes} min {seconds} s".removesuffix(" 0 s") if minutes else f"{seconds} s"


def _pace(first: Point, before: float | None, then: Point, now: float | None) -> float | None:
    """Return how much a value grows per second between two points, or None if unknown."""
    seconds = seconds_between(first.at, then.at)
    if before is None or now is None or seconds is None:
        return None
    return (now - before) / seconds if seconds > 0 else None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
