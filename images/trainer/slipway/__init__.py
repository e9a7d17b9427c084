"""Reports a job's metrics: import it into a training script, on every rank.

    import slipway

    for epoch in range(1, epochs + 1):
        ...
        slipway.log(epoch=epoch, val_loss=0.31)
    slipway.finish(accuracy=0.98, perplexity=12.4)

`log` writes a line that `make up` shows during the training, and keeps each metric's history.
`finish` stores the last values as the job's result, which its `require` and `minAccuracy` judge. A
program that succeeds without it gets the values that it logged. Only metrics of rank 0
count; on other ranks and outside of a pod the functions have no effect. An error in here is a
warning on standard error: no training fails because of its metrics.

`latest`, `due` and `save` let a training resume after an interruption: `slipway.checkpoints`.

It needs only Python 3.9. `slipway.lightning`, `slipway.transformers` and `slipway.accelerate` do
the same for trainings with these libraries.
"""

from slipway.checkpoints import due, latest, save
from slipway.reporting import finish, log

__all__ = ["due", "finish", "latest", "log", "save"]
