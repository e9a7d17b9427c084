"""When a run has reached its goal: validations give all ranks the same numbers, so all can stop."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

METRICS = ("accuracy", "top5_accuracy", "val_loss", "test_loss")
"""Of the demos, whose validations are on the test set: the two losses are the same."""


@dataclass(frozen=True)
class Goal:
    """`metric`, as a validation finds it, has come to `value` or above; of a loss, or below."""

    metric: str
    value: float

    @property
    def falls(self) -> bool:
        """Whether less is better, as the metric's name tells."""
        return any(word in self.metric for word in ("loss", "error", "perplexity"))

    def reached(self, values: Mapping[str, Any]) -> bool:
        """Return whether a validation's values reach it; raise `ValueError` without the metric."""
        if self.metric in {"val_loss", "test_loss"}:
            values = {self.metric: values.get("loss"), **values}
        if (found := values.get(self.metric)) is None:
            raise ValueError(
                f"the goal {self} needs a metric that the validation doesn't have; it has "
                f"{', '.join(values)}: add the metric to validation_round, or change the goal"
            )
        return bool(found <= self.value if self.falls else found >= self.value)

    def __str__(self) -> str:
        return f"{self.metric}={self.value:g}"


def parse(text: str) -> Goal:
    """Return the goal that a text such as `accuracy=0.98` names; raise `ValueError` for others."""
    metric, _, number = text.partition("=")
    try:
        goal = Goal(metric, float(number))
    except ValueError:
        goal = Goal(metric, math.nan)
    most = sys.float_info.max if goal.falls else 1
    if metric not in METRICS or not 0 < goal.value <= most:
        raise ValueError(
            f"{text!r} is no goal: it takes METRIC=VALUE, such as accuracy=0.98 or val_loss=0.3, "
            f"with one of {', '.join(METRICS)} and a value above 0; a share is at most 1"
        )
    return goal


task1_time_to_accuracy_goal = Goal("accuracy", 0.8)
"""MLBench's closed-division goal for image classification: 80 % of the test set."""
