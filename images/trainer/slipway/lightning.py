"""Report PyTorch Lightning's metrics as a job's result.

    trainer = lightning.Trainer(logger=SlipwayLogger(), …)

The result contains the last value of each metric passed to `self.log`, and its value in each epoch.
Checkpoints go to SLIPWAY_OUTPUT_DIR, which the job keeps. Supports Lightning 2.6's Logger.
https://lightning.ai/docs/pytorch/2.6.0/extensions/logging.html
"""

from __future__ import annotations

import os
from typing import Any

import slipway

try:
    from lightning.pytorch.loggers.logger import Logger  # type: ignore[import-not-found]
    from lightning.pytorch.utilities import rank_zero_only  # type: ignore[import-not-found]
except ModuleNotFoundError:  # Lightning is on PyPI under two names
    from pytorch_lightning.loggers.logger import Logger  # type: ignore[import-not-found]
    from pytorch_lightning.utilities import rank_zero_only  # type: ignore[import-not-found]


class SlipwayLogger(Logger):  # type: ignore[misc]  # only the program's image has Lightning
    """Passes logged metrics on to `slipway`, on rank 0."""

    name = version = ""
    """Names of subfolders in `save_dir` for checkpoints; empty, since no subfolders are used."""

    @property
    def save_dir(self) -> str | None:
        """The directory whose files outlive the job; None outside a job."""
        return os.environ.get("SLIPWAY_OUTPUT_DIR")

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        epoch = metrics.get("epoch")  # Lightning adds it, counted from 0
        numbers = {name: value for name, value in metrics.items() if name not in {"epoch", "step"}}
        if numbers:
            slipway.log(None if epoch is None else int(epoch) + 1, step, **numbers)

    @rank_zero_only  # type: ignore[untyped-decorator]
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing, since a job's arguments are in its stack's settings."""

    @rank_zero_only  # type: ignore[untyped-decorator]
    def finalize(self, status: str) -> None:
        """Store the result; Lightning calls this after fit, validate and test."""
        if status == "success":
            slipway.finish()
