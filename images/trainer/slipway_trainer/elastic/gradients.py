"""Averages the gradients of all workers in one collective operation per step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from slipway_trainer.elastic.world import collective

_EXTRAS = 3


@dataclass(frozen=True)
class Reduced:
    """What travelled with the gradients, summed over all workers."""

    samples: int
    flags: int
    """How many workers raised their flag."""
    value: float
    """What they added."""


class Bucket:
    """One flat tensor that holds the gradients of all float32 parameters, and three numbers."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = [each for each in parameters if each.requires_grad]
        others = {str(each.dtype) for each in self.parameters} - {"torch.float32"}
        if others:
            raise ValueError(f"elastic training takes float32 parameters, not {sorted(others)}")
        sizes = [each.numel() for each in self.parameters]
        device = self.parameters[0].device if self.parameters else None
        self._flat = torch.zeros(sum(sizes) + _EXTRAS, device=device)
        parts = self._flat.split([*sizes, _EXTRAS])
        self._views = [
            part.view_as(each) for part, each in zip(parts, self.parameters, strict=False)
        ]
        self._extras = parts[-1]

    def average(self, samples: int, flag: bool, value: float) -> Reduced:
        """Replace each parameter's gradient with the mean over the samples of all workers.

        A worker's gradients are those of its mean loss, so they count by its share of the step's
        samples; without any, whatever gradients it has do not count. What was averaged before, in
        an earlier backward pass of the same step, is the same on all workers and stays what it is.
        `WorldChanged` is raised when a worker was lost.
        """
        if samples == 0:
            self._flat.zero_()
        else:
            for view, parameter in zip(self._views, self.parameters, strict=True):
                if parameter.grad is None:
                    view.zero_()
                else:
                    torch.mul(parameter.grad, samples, out=view)
        self._extras.copy_(torch.tensor([samples, flag, value if samples else 0.0]))
        collective(lambda: dist.all_reduce(self._flat))
        all_samples, flags, all_values = self._extras.tolist()
        for view, parameter in zip(self._views, self.parameters, strict=True):
            parameter.grad = view.div_(all_samples)
        return Reduced(round(all_samples), round(flags), all_values)

    def withdraw(self) -> None:
        """Take all gradients away: those of a step that failed must not add to the next."""
        for parameter in self.parameters:
            parameter.grad = None
