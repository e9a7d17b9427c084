"""A program's numbers: told as they come, kept, and left as the job's result at the end."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from typing import Any

from slipway import termination
from slipway.events import Events, harmless, own_rank, warn

_latest: dict[str, float] = {}
_epochs: dict[str, dict[int, float]] = {}


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return those of `values` that are numbers, NaN and tensors of one too; warn of the others."""
    found = {}
    for name, value in values.items():
        if (number := _number(value)) is None:
            warn(f"{name}={value!r:.60} is left out: it is no number")
        else:
            found[str(name)] = number
    return found


@harmless
def log(epoch: int | None = None, step: int | None = None, **numbers: Any) -> None:
    """Tell numbers of this moment, and keep them for `finish`.

    Args:
        epoch: Counted from 1. With it the numbers are in the result's history of each epoch, too;
            those of an epoch told of once more take the place of the earlier ones.
        step: Counted in any way.
        numbers: By name. Tensors with a single element are numbers; what is none is left out.
    """
    found = _add(numbers, epoch)
    Events(own_rank()).emit("metrics", **_given(epoch=epoch, step=step), metrics=found)


@harmless
def finish(*, dataset: str | None = None, samples_seen: int | None = None, **numbers: Any) -> None:
    """Leave the job's result: these numbers, and the last of those that were logged.

    It may be called more than once: later numbers win. A program that fails afterwards has failed.

    Args:
        dataset: What it was trained on, for a `minAccuracy` by data set.
        samples_seen: Training samples of this rank; the result has the sum of all ranks'.
        numbers: By name, as in `log`. `accuracy`, `top5_accuracy` and `loss` are fields of the
            result, others are in its `metrics`.
    """
    _add(numbers)
    atexit.unregister(_leave_what_was_logged)
    facts = _given(dataset=dataset, samples_seen=samples_seen)
    termination.leave({"rank": own_rank(), **facts, **logged()})


@atexit.register
@harmless
def _leave_what_was_logged() -> None:
    """At the end of a program that did not call `finish`; what it left itself counts."""
    if _latest and not hasattr(sys, "last_value"):
        left = termination.read(termination.place())
        termination.leave({"rank": own_rank(), **logged(), **left})


def _add(values: Mapping[str, Any], epoch: int | None = None) -> dict[str, float]:
    """Take in values, of an epoch where one is given; return those that are numbers."""
    found = numbers(values)
    _latest.update(found)
    for name, value in found.items() if epoch is not None else ():
        of_epochs = _epochs.setdefault(name, {})
        of_epochs[int(epoch)] = value  # type: ignore[arg-type]
        while len(of_epochs) > 1000:  # the latest are kept
            del of_epochs[min(of_epochs)]
    return found


def logged() -> dict[str, Any]:
    """Return what was logged as `metrics` and `epoch_metrics` of a termination message."""
    by_epoch = {
        name: [value for _, value in sorted(values.items())] for name, values in _epochs.items()
    }
    return {"metrics": dict(_latest), **({"epoch_metrics": by_epoch} if by_epoch else {})}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _number(value: Any) -> float | None:
    try:
        plain = value.item() if hasattr(value, "item") else value
    except Exception:  # noqa: BLE001 - a tensor of several elements, or what only looks like one
        return None
    return plain if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None
