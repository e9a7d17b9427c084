"""Report a program's metrics as they arrive, and store the job's result at the end."""

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
    """Return the numbers in `values`, including NaN and one-element tensors; warn about others."""
    valid = {}
    for name, value in values.items():
        if (number := _number(value)) is None:
            warn(f"{name}={value!r:.60} is ignored: it is not a number")
        else:
            valid[str(name)] = number
    return valid


@harmless
def log(epoch: int | dict[str, Any] | None = None, step: int | None = None, **numbers: Any) -> None:
    """Report current metrics, and keep them for `finish`.

    Args:
        epoch: Counted from 1. If set, the metrics are also in the result's history by epoch, where
            a later report for the same epoch replaces an earlier one.
        step: The current step, however you count steps.
        numbers: Metrics, as keyword arguments or a map, which comes first, as for `wandb.log`.
            One-element tensors count as numbers; other values are ignored.
    """
    if isinstance(epoch, Mapping):
        numbers = {**epoch, **numbers}
        epoch, step = numbers.pop("epoch", None), numbers.pop("step", step)
    metrics = _add(numbers, epoch)
    # Again, as after `finish`, or in a forked process, which starts without exit handlers.
    atexit.unregister(_finish_at_exit)
    atexit.register(_finish_at_exit)
    Events(own_rank()).emit("metrics", **_present(epoch=epoch, step=step), metrics=metrics)


@harmless
def finish(*, dataset: str | None = None, samples_seen: int | None = None, **numbers: Any) -> None:
    """Store the job's result: these metrics, and the last values that were logged.

    Later calls override earlier ones. A program that fails afterwards still counts as failed.

    Args:
        dataset: The training data set, for a `minAccuracy` that depends on it.
        samples_seen: The number of training samples on this rank; the result contains the total.
        numbers: Metrics, as for `log`. `accuracy`, `top5_accuracy` and `loss` become fields in the
            result; others are in its `metrics`.
    """
    _add(numbers)
    atexit.unregister(_finish_at_exit)
    # What the program's earlier processes left, or it wrote itself.
    left = termination.read(termination.place())
    maps = {name: each for name, each in left.items() if isinstance(each, dict)}
    own = {name: {**maps.get(name, {}), **values} for name, values in logged().items()}
    facts = _present(dataset=dataset, samples_seen=samples_seen)
    termination.leave({"rank": own_rank(), **left, **facts, **own})


def _finish_at_exit() -> None:
    """Store the result if `finish` was not called, but not of a program that failed."""
    if _latest and not hasattr(sys, "last_value"):
        finish()


def _add(values: Mapping[str, Any], epoch: Any = None) -> dict[str, float]:
    """Record the numbers in `values`, also by epoch if `epoch` is set, and return the numbers."""
    valid = numbers(values)
    _latest.update(valid)
    for name, value in valid.items() if epoch is not None else ():
        of_epochs = _epochs.setdefault(name, {})
        of_epochs[int(epoch)] = value
        while len(of_epochs) > 1000:  # keep the latest
            del of_epochs[min(of_epochs)]
    return valid


def logged() -> dict[str, Any]:
    """Return the logged values as a termination message's `metrics` and `epoch_metrics`."""
    by_epoch = {
        name: [value for _, value in sorted(values.items())] for name, values in _epochs.items()
    }
    return {"metrics": dict(_latest), **({"epoch_metrics": by_epoch} if by_epoch else {})}


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _number(value: Any) -> float | None:
    try:
        plain = value.item() if hasattr(value, "item") else value
    except Exception:  # noqa: BLE001 - a tensor with several elements, or a similar object
        return None
    return plain if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None
