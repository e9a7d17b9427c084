"""How far a run is, as rank 0 reports in its log. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.process import json_map

_LONGEST_LINE = 80


@dataclass(frozen=True)
class Point:
    """A step, or the end of an epoch, that was reported; docs/results.md has the events.

    Args:
        epoch: Which one, from 1.
        share: Which part of it is done; None when that is not known.
        step: Which one, from 0; past all steps for the epoch's end.
        at: When.
        samples: That rank 0 trained on so far in this epoch.
        loss: Of this step, or of the epoch.
        accuracy: After the epoch.
        rate: Samples per second of rank 0.
    """

    epoch: int
    share: float | None
    step: float
    at: datetime | None
    samples: int | None
    loss: float | None
    accuracy: float | None
    rate: float | None

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> "Point | None":
        """Return the point that an event reports; None of another event, or without an epoch."""
        epoch, step, steps = (_count(event.get(key)) for key in ("epoch", "step", "steps"))
        ends = event.get("event") == "epoch"
        if epoch is None or event.get("event") not in {"step", "epoch"}:
            return None
        share = None if step is None or not steps else min(1.0, (step + 1) / steps)
        return cls(
            epoch,
            share=1.0 if ends else share,
            step=float("inf") if ends else step or 0,
            at=_time(event.get("time")),
            samples=_count(event.get("samples")),
            loss=_number(event.get("loss")),
            accuracy=_number(event.get("accuracy")),
            rate=_number(event.get("samples_per_second")),
        )

    @property
    def ends_its_epoch(self) -> bool:
        """Whether the epoch is complete."""
        return self.step == float("inf")


@dataclass
class Progress:
    """What one run has reported of its training so far.

    Args:
        world_size: How many ranks train.
    """

    world_size: int
    has_stepped: bool = False
    """Whether it has trained at all."""
    _epochs: int | None = None
    _first: Point | None = None
    """Of the run: the pace is measured from it."""
    _begun: Point | None = None
    """Of the epoch."""
    _latest: Point | None = None
    _ended: Point | None = None
    """The end of the latest epoch that was ended."""
    _line: str = ""

    @property
    def epochs_done(self) -> int:
        """How many epochs have come to their end."""
        return 0 if self._ended is None else self._ended.epoch

    def see(self, line: str) -> None:
        """Take in a line of the log: it may be an event."""
        event = json_map(line)
        self.has_stepped |= event.get("event") in {"step", "epoch"}
        if event.get("event") == "started":
            self._epochs = _count(event.get("epochs"))
        elif (point := Point.of(event)) is not None:
            self._see(point)
        elif "event" not in event:
            self._line = line.strip() or self._line

    def _see(self, point: Point) -> None:
        latest = self._latest
        # A log that broke off is read again from its beginning.
        if latest is not None and (point.epoch, point.step) <= (latest.epoch, latest.step):
            return
        self._first = self._first or point
        if latest is None or point.epoch != latest.epoch:
            self._begun = point
        self._latest = point
        if point.ends_its_epoch:
            self._ended = point

    def __str__(self) -> str:
        """Describe it in one line; empty when nothing was reported."""
        point = self._latest
        if point is None:
            return f"last line: {_cut(self._line)}" if self._line else ""
        parts = [self._place(point), *self._figures(point), self._left(point)]
        return ", ".join(part for part in parts if part)

    def _place(self, point: Point) -> str:
        of = "" if self._epochs is None else f"/{self._epochs}"
        is_within = not point.ends_its_epoch and point.share is not None
        return f"epoch {point.epoch}{of}" + (f" at {point.share:.0%}" if is_within else "")

    def _figures(self, point: Point) -> list[str]:
        accuracy = None if self._ended is None else self._ended.accuracy
        after = "" if point.ends_its_epoch else f" after epoch {self.epochs_done}"
        rate = point.rate if point.ends_its_epoch else self._rate(point)
        return [
            "" if point.loss is None else f"loss {point.loss:.4f}",
            "" if accuracy is None else f"accuracy {accuracy:.4f}{after}",
            "" if rate is None else f"{rate * self.world_size:,.0f} samples/s",
        ]

    def _rate(self, point: Point) -> float | None:
        """Return rank 0's samples per second in this epoch so far."""
        begun = self._begun
        if begun is None or begun.samples is None or point.samples is None:
            return None
        seconds = _seconds(begun, point)
        return None if not seconds else (point.samples - begun.samples) / seconds

    def _left(self, point: Point) -> str:
        """Return how long the rest will take at the pace so far; empty before that is known."""
        if self._first is None:
            return ""
        before, done, seconds = self._done(self._first), self._done(point), None
        if before is not None and done is not None and before < done < 1:
            seconds = _seconds(self._first, point)
        if before is None or done is None or seconds is None:
            return ""
        return f"about {duration(seconds * (1 - done) / (done - before))} left"

    def _done(self, point: Point) -> float | None:
        """Return which part of all epochs is done."""
        if not self._epochs or point.share is None:
            return None
        return (point.epoch - 1 + point.share) / self._epochs


def duration(seconds: float) -> str:
    """Return a time in its two largest units."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _seconds(begun: Point, now: Point) -> float | None:
    if begun.at is None or now.at is None or now.at <= begun.at:
        return None
    return (now.at - begun.at).total_seconds()


def _time(value: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count and isinstance(value, int) else None


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
