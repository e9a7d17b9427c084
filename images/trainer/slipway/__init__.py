"""Report a job's metrics: import this package in a training script, on every rank.

    import slipway

    for epoch in range(1, epochs + 1):
        ...
        slipway.log(epoch=epoch, val_loss=0.31)
    slipway.finish(accuracy=0.98, perplexity=12.4)

`log` writes a line that `make up` shows during training, and keeps each metric's history. `finish`
stores the last values as the job's result, which its `require` and `minAccuracy` check. If a
program succeeds without calling it, the logged values are the result. Only rank 0's metrics count;
on other ranks and outside a pod, the functions have no effect. An error here is only a warning on
standard error: no training run fails because of its metrics.

`latest`, `due` and `save` let training resume after an interruption: see `slipway.checkpoints`.

The package needs only Python 3.9. `slipway.lightning`, `slipway.transformers` and
`slipway.accelerate` do the same for training with these libraries.
"""

from slipway.checkpoints import due, latest, save
from slipway.reporting import finish, log

__all__ = ["due", "finish", "latest", "log", "save"]
