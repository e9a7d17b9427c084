"""Validation metrics. A metric keeps no state between batches.

Counts are summed over batches and ranks, so the value is exact however the test set is split. They
stay on the model's device so that no batch waits for another; only their sum is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Metric(Protocol):
    """A measure of a model's outputs for a test set."""

    @property
    def name(self) -> str:
        """The name in events, goals and results."""

    @property
    def size(self) -> int:
        """The number of values in `counts`."""

    def counts(self, output: Tensor, target: Tensor) -> Tensor | Sequence[int]:
        """Return a batch's `size` counts, from outputs (n, classes) and targets (n,)."""

    def value(self, counts: Sequence[float]) -> float | dict[str, float]:
        """Return the metric's value for summed counts."""


@dataclass(frozen=True)
class TopKAccuracy:
    """The fraction of samples, 0 to 1, whose class is among the `topk` most likely ones."""

    topk: int = 1
    size: int = 2

    @property
    def name(self) -> str:
        return "accuracy" if self.topk == 1 else f"top{self.topk}_accuracy"

    def counts(self, output: Tensor, target: Tensor) -> Tensor:
        # With fewer classes than k, every sample counts as correct.
        likeliest = output.topk(min(self.topk, output.shape[1]), dim=1).indices
        right = likeliest.eq(target.unsqueeze(1)).sum()
        return torch.stack([right, torch.full_like(right, len(target))])

    def value(self, counts: Sequence[float]) -> float:
        right, samples = counts
        return right / samples


@dataclass(frozen=True)
class ClassAccuracy:
    """The fraction of each class's samples, 0 to 1, that are classified correctly."""

    classes: tuple[str, ...]
    name: str = "class_accuracies"

    @property
    def size(self) -> int:
        return 2 * len(self.classes)

    def counts(self, output: Tensor, target: Tensor) -> Tensor:
        # As in TopKAccuracy; of two equal outputs, argmax may choose the other.
        right = output.topk(1, dim=1).indices.squeeze(1) == target
        none = torch.zeros(len(self.classes), dtype=torch.int64, device=target.device)
        # bincount would synchronize with the device to read the number of classes.
        by_class = (none.index_add(0, target, each.long()) for each in (right, right | True))
        return torch.cat([*by_class])

    def value(self, counts: Sequence[float]) -> dict[str, float]:
        """Return the fraction for each class, omitting classes without samples."""
        right, samples = counts[: len(self.classes)], counts[len(self.classes) :]
        return {
            name: hits / count
            for name, hits, count in zip(self.classes, right, samples, strict=True)
            if count > 0
        }
