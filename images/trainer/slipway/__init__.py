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

from slipway.checkpoints import due, latest, save
from slipway.reporting import finish, log

__all__ = ["due", "finish", "latest", "log", "save"]
