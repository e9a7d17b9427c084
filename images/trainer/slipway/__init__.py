"""Tells a job's numbers: import it into a training script, on every rank.

    import slipway

    for epoch in range(1, epochs + 1):
        ...
        slipway.log(epoch=epoch, val_loss=0.31)
    slipway.finish(accuracy=0.98, perplexity=12.4)

`log` writes a line that `make up` shows while it trains, and keeps each number's history; `finish`
leaves the last of them as the job's result, which its `require` and `minAccuracy` judge. A program
that ends without it, and has not failed, leaves those that it logged. Those of
rank 0 count; on other ranks both do no harm, nor outside of a pod. Whatever goes wrong in here is a
warning on standard error: no training fails because of its numbers.

`latest`, `due` and `save` let a training go on after whatever stopped it: `slipway.checkpoints`.

It needs Python 3.9 and nothing else. `slipway.lightning`, `slipway.transformers` and
`slipway.accelerate` do the same for those who train with these libraries.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from slipway import termination
from slipway.checkpoints import due, latest, save
from slipway.events import Events, History, harmless, own_rank

__all__ = ["due", "finish", "latest", "log", "save"]

_history = History()


@harmless
def log(epoch: int | None = None, step: int | None = None, **numbers: Any) -> None:
    """Tell numbers of this moment, and keep them for `finish`.

    Args:
        epoch: Counted from 1. With it the numbers are in the result's history of each epoch, too;
            those of an epoch told of once more take the place of the earlier ones.
        step: Counted in any way.
        numbers: By name. Tensors with a single element are numbers; what is none is left out.
    """
    found = _history.add(numbers, epoch)
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
    _history.add(numbers)
    atexit.unregister(_leave_what_was_logged)
    facts = _given(dataset=dataset, samples_seen=samples_seen)
    termination.leave({"rank": own_rank(), **facts, **_history.told()})


@atexit.register
@harmless
def _leave_what_was_logged() -> None:
    """At the end of a program that did not call `finish`; what it left itself counts."""
    if _history.latest and not hasattr(sys, "last_value"):
        left = termination.read(termination.place())
        termination.leave({"rank": own_rank(), **_history.told(), **left})


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
