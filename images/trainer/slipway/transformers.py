"""Report metrics from Hugging Face's Trainer as a job's result.

    trainer = transformers.Trainer(…, callbacks=[SlipwayCallback()])

The result contains the last value of each metric that the Trainer logs, and its value in each
epoch: the training `loss`, `eval_loss` and, from `compute_metrics`, `eval_accuracy` and others.
Supports Transformers 4.56 to 5.24.
https://huggingface.co/docs/transformers/v5.24.0/main_classes/callback
"""

from __future__ import annotations

import math
from typing import Any

from transformers import TrainerCallback  # type: ignore[import-not-found]

import slipway


class SlipwayCallback(TrainerCallback):  # type: ignore[misc]  # only the program's image has it
    """Passes logged metrics on to `slipway`, on rank 0."""

    _trains = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._trains = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        # `epoch` is the number of completed epochs, including a fraction.
        numbers = {
            name: each for name, each in (logs or {}).items() if name not in {"epoch", "step"}
        }
        if state.is_world_process_zero and numbers:
            epoch = None if state.epoch is None else max(1, math.ceil(state.epoch))
            slipway.log(epoch, state.global_step, **numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._trains = False
        self.on_evaluate(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero and not self._trains:
            slipway.finish()
