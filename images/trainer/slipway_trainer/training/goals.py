"""Goals for a run. All ranks reach a goal together, as they get the same validation results."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

METRICS = ("accuracy", "top5_accuracy", "val_loss", "test_loss")
"""The demos' metrics. The demos validate on the test set, so `val_loss` equals `test_loss`."""


@dataclass(frozen=True)
class Goal:
    """A goal: a validation's `metric` is at least `value`, or for a loss at most `value`."""

    metric: str
    value: float

    @property
    def falls(self) -> bool:
        """True if lower is better, judging by the metric's name."""
        return any(word in self.metric for word in ("loss", "error", "perplexity"))

    def reached(self, values: Mapping[str, Any]) -> bool:
        """Return whether `values` reach the goal; raise `ValueError` if they lack the metric."""
        if self.metric in {"val_loss", "test_loss"}:
            values = {self.metric: values.get("loss"), **values}
        if (value := values.get(self.metric)) is None:
            raise ValueError(
                f"the goal {self} needs a metric that the validation doesn't compute; it computes "
                f"{', '.join(values)}: add the metric to validation_round, or change the goal"
            )
        return bool(value <= self.value if self.falls else value >= self.value)

    def __str__(self) -> str:
        return f"{self.metric}={self.value:g}"


def parse(text: str) -> Goal:
    """Parse a goal such as `accuracy=0.98`; raise `ValueError` for an invalid one."""
    metric, _, number = text.partition("=")
    try:
        goal = Goal(metric, float(number))
    except ValueError:
        goal = Goal(metric, math.nan)
    most = sys.float_info.max if goal.falls else 1
    if metric not in METRICS or not 0 < goal.value <= most:
        raise ValueError(
            f"{text!r} is not a goal: use METRIC=VALUE, such as accuracy=0.98 or val_loss=0.3, "
            f"with one of {', '.join(METRICS)} and a value above 0; an accuracy is at most 1"
        )
    return goal


task1_time_to_accuracy_goal = Goal("accuracy", 0.8)
"""MLBench's closed-division goal for image classification: 80% accuracy on the test set."""
