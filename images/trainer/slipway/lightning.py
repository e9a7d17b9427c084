"""PyTorch Lightning's numbers as a job's result.

    trainer = lightning.Trainer(logger=SlipwayLogger(), …)

What `self.log` logs, the result has: the last value of each name, and the values by epoch.
Checkpoints go into SLIPWAY_OUTPUT_DIR, which the job keeps. Made for Lightning 2.6's Logger.
https://lightning.ai/docs/pytorch/2.6.0/extensions/logging.html
"""

from __future__ import annotations

import os
from typing import Any

import slipway

try:
    from lightning.pytorch.loggers.logger import Logger  # type: ignore[import-not-found]
    from lightning.pytorch.utilities import rank_zero_only  # type: ignore[import-not-found]
except ModuleNotFoundError:  # Lightning is in PyPI under two names
    from pytorch_lightning.loggers.logger import Logger  # type: ignore[import-not-found]
    from pytorch_lightning.utilities import rank_zero_only  # type: ignore[import-not-found]


class SlipwayLogger(Logger):  # type: ignore[misc]  # Lightning is in the program's image alone
    """Passes what is logged on to `slipway`, on rank 0."""

    name = version = ""
    """Folders for checkpoints, below `save_dir`; there are none."""

    @property
    def save_dir(self) -> str | None:
        """The directory that the job keeps; None outside of one."""
        return os.environ.get("SLIPWAY_OUTPUT_DIR")

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        epoch = metrics.get("epoch")  # Lightning adds it, counted from 0
        numbers = {name: value for name, value in metrics.items() if name not in {"epoch", "step"}}
        if numbers:
            slipway.log(None if epoch is None else int(epoch) + 1, step, **numbers)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: a job's arguments are in its stack."""

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        """Leave the result; Lightning calls this at the end of fit, validate and test."""
        if status == "success":
            slipway.finish()
