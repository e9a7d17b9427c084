"""When a run has reached what it is for, so that all ranks can stop.

Validations give every rank the same numbers, so every rank comes to the same answer by itself.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

METRICS = ("accuracy", "top5_accuracy")


@dataclass(frozen=True)
class Goal:
    """`metric`, as a validation finds it, has come to `value` or above."""

    metric: str
    value: float

    def reached(self, values: Mapping[str, Any]) -> bool:
        """Return whether a validation's values reach it.

        Raises:
            ValueError: the validation doesn't have the metric.
        """
        if self.metric not in values:
            raise ValueError(
                f"the goal {self} needs a metric that the validation doesn't have; it has "
                f"{', '.join(values)}: add the metric to validation_round, or change the goal"
            )
        return bool(values[self.metric] >= self.value)

    def __str__(self) -> str:
        return f"{self.metric}={self.value:g}"


def parse(text: str) -> Goal:
    """Return the goal that a text such as `accuracy=0.98` names.

    Raises:
        ValueError: it names none; the message says what is allowed.
    """
    metric, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if metric not in METRICS or not 0 < value <= 1:
        raise ValueError(
            f"{text!r} is no goal: it takes METRIC=VALUE, such as accuracy=0.98, with one of "
            f"{', '.join(METRICS)} and a share above 0 and up to 1"
        )
    return Goal(metric, value)


task1_time_to_accuracy_goal = Goal("accuracy", 0.8)
"""MLBench's closed-division goal for image classification: 80 % of the test set."""
