"""Convert a pod's events into metrics by step, parameters and tags, for a tracking server.

Metrics that are the same on all ranks have a plain name, such as `accuracy`; a single rank's have a
suffix, as in `loss/rank_0`. Servers group metrics with the same prefix.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_OF_ALL = ("accuracy", "top5_accuracy", "test_loss")
_OF_A_RANK = (
    *("rank_loss", "samples_per_second", "seconds", "cpu_seconds"),
    *("peak_memory_mib", "gpu_peak_memory_mib"),
)
_TAGS = ("world_size", "backend", "torch", "precision", "device", "device_name")


@dataclass(frozen=True)
class Point:
    """A metric's value after `step` steps of the whole run; `time` is in ms since 1970."""

    name: str
    value: float
    step: int
    time: int


class Figures:
    """Converts the events from a pod's ranks, which must be passed in order."""

    def __init__(self) -> None:
        self.latest: dict[str, float] = {}
        self.last_step = 0
        self._done: dict[int, int] = {}
        self._of_epoch: dict[int, int] = {}

    def points(self, event: Mapping[str, Any]) -> list[Point]:
        """Return the metrics in an event, or an empty list if it contains none or is invalid."""
        try:
            time = int(datetime.fromisoformat(event["time"]).timestamp() * 1000)
            step, values = self._read(event)
            return self.at(values, int(step), time)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            return []

    def at(self, values: Mapping[str, Any], step: int, time: int) -> list[Point]:
        """Return the finite numbers in `values` as metrics at a step."""
        points = [
            Point(re.sub(r"[^\w./ :-]", "_", name), float(value), step, time)
            for name, value in values.items()
            if isinstance(value, (int, float)) and math.isfinite(value)
        ]
        self.latest |= {point.name: point.value for point in points}
        self.last_step = max(self.last_step, step)
        return points

    def finals(self, message: Mapping[str, Any], time: int) -> list[Point]:
        """Return the metrics in a program's termination message that no event contained."""
        named = message.get("metrics")
        fields = {name: message.get(name) for name in ("accuracy", "top5_accuracy")}
        values = {**fields, **(named if isinstance(named, dict) else {})}
        new = {name: value for name, value in values.items() if self.latest.get(name) != value}
        return self.at(new, self.last_step, time)

    def _read(self, event: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return an event's step, counted over the whole run, and its metrics."""
        rank, step, values = int(event["rank"]), 0, dict[str, Any]()
        match event["event"]:
            case "step":
                if "steps" in event:
                    self._of_epoch[rank] = int(event["steps"])
                step = self._before(event) + event["step"] + 1
                values = {f"loss/rank_{rank}": event["loss"]}
            case "epoch":
                self._done[rank] = step = self._before(event) + int(event["steps"])
                values = _of_epoch(event, rank)
            case "metrics":
                step = int(event.get("step", event.get("epoch", 0)))
                suffix = "" if rank == 0 else f"/rank_{rank}"
                values = {f"{name}{suffix}": value for name, value in event["metrics"].items()}
            # These are the same on all ranks:
            case "validation" if rank == 0:
                step = self._before(event) + event["step"]
                classes = event.get("class_accuracies", {})
                by_class = {f"class_accuracy/{_flat(name)}": each for name, each in classes.items()}
                values = {name: event[name] for name in _OF_ALL if name in event} | by_class
            case "goal_reached" if rank == 0:
                step = self._before(event) + event["step"]
                values = {"time_to_accuracy_seconds": event["time_to_accuracy_seconds"]}
        return step, values

    def _before(self, event: Mapping[str, Any]) -> int:
        """Return the number of steps before the event's epoch."""
        if (of_epoch := self._of_epoch.get(event["rank"])) is None:
            return self._done.get(event["rank"], 0)
        return int((event["epoch"] - 1) * of_epoch)


def _of_epoch(event: Mapping[str, Any], rank: int) -> dict[str, Any]:
    own = {name: event[name] for name in _OF_A_RANK if name in event}
    own |= {f"seconds_in/{_flat(name)}": each for name, each in event.get("seconds_in", {}).items()}
    values = {f"{name}/rank_{rank}": value for name, value in own.items()}
    return values | ({"loss/all_ranks": event["loss"]} if rank == 0 and "loss" in event else {})


def _flat(name: str) -> str:
    return name.replace("/", "_")


def parameters(started: Mapping[str, Any]) -> dict[str, str]:
    """Return the program's arguments from its `started` event, as a run's parameters."""
    left_out = {"event", "rank", "time", "epoch", *_TAGS} - {"backend", "precision"}
    return {
        name: str(value)
        for name, value in started.items()
        if name not in left_out and value is not None
    }


def tags(event: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's tags, from its `started` event or its termination message."""
    return {name: str(event[name]) for name in (*_TAGS, "dataset") if name in event}


def settings(declared: Any, prefix: str = "job") -> dict[str, str]:
    """Return a job's declared settings as parameters, named by path: `job.workers`."""
    if not isinstance(declared, Mapping):
        return {prefix: str(declared)}
    return {
        name: value
        for key, each in declared.items()
        for name, value in settings(each, f"{prefix}.{key}").items()
    }
