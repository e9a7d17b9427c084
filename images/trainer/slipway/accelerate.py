"""Report metrics from a Hugging Face Accelerate training loop as a job's result.

    accelerator = Accelerator(log_with=SlipwayTracker())
    accelerator.init_trackers("mine")
    accelerator.log({"epoch": 1, "val_loss": 0.31}, step=100)
    accelerator.end_training()

Metrics with an `epoch` are in the result's history. Supports Accelerate 1.10 to 1.15.
https://huggingface.co/docs/accelerate/v1.10.0/usage_guides/tracking#implementing-custom-trackers
"""

from __future__ import annotations

from typing import Any

from accelerate.tracking import (  # type: ignore[import-not-found]
    GeneralTracker,
    on_main_process,
)

import slipway


class SlipwayTracker(GeneralTracker):  # type: ignore[misc]  # only the program's image has it
    """Passes logged metrics on to `slipway`, on the main process."""

    name = "slipway"
    requires_logging_directory = False
    tracker = slipway

    @on_main_process  # type: ignore[untyped-decorator]
    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        epoch = values.get("epoch")
        slipway.log(**{**values, "epoch": None if epoch is None else int(epoch), "step": step})

    @on_main_process  # type: ignore[untyped-decorator]
    def finish(self) -> None:
        """Store the result; `end_training` calls this."""
        slipway.finish()
