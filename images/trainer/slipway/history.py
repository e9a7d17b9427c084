"""The numbers that a program tells of: the latest of each name, and those of each epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slipway.events import warn

MOST_EPOCHS = 1000
"""Of each number the latest are kept."""


@dataclass
class History:
    """What was told of so far.

    Attributes:
        latest: Each number's latest value, by name.
        epochs: Each number's values by epoch, by name.
    """

    latest: dict[str, float] = field(default_factory=dict)
    epochs: dict[str, dict[int, float]] = field(default_factory=dict)

    def add(self, values: Mapping[str, Any], epoch: int | None = None) -> dict[str, float]:
        """Take in numbers, of an epoch where one is given; return those that are numbers."""
        found = numbers(values)
        self.latest.update(found)
        for name, value in found.items() if epoch is not None else ():
            of_epochs = self.epochs.setdefault(name, {})
            of_epochs[int(epoch)] = value  # type: ignore[arg-type]
            while len(of_epochs) > MOST_EPOCHS:
                del of_epochs[min(of_epochs)]
        return found

    def told(self) -> dict[str, Any]:
        """Return `metrics` and `epoch_metrics` as a termination message has them."""
        by_epoch = {
            name: [value for _, value in sorted(values.items())]
            for name, values in self.epochs.items()
        }
        return {"metrics": dict(self.latest), **({"epoch_metrics": by_epoch} if by_epoch else {})}


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return those of `values` that are finite numbers, as Python's; warn of the others.

    What has an `item`, as tensors and numpy's arrays of a single element, is what that returns.
    """
    found = {}
    for name, value in values.items():
        number = _number(value)
        if number is None:
            warn(f"{name}={value!r:.60} is left out: it is no finite number")
        else:
            found[str(name)] = number
    return found


def _number(value: Any) -> float | None:
    try:
        plain = value.item() if hasattr(value, "item") else value
        is_number = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        return plain if is_number and math.isfinite(plain) else None
    except Exception:  # noqa: BLE001 - a tensor of several elements, or what only looks like one
        return None
