"""MNIST as two tensors in memory: with 47 MB there is nothing for a DataLoader to do."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torchvision.datasets import MNIST

MEAN, DEVIATION = 0.1307, 0.3081
"""Of all training pixels, after scaling to 0..1."""


@dataclass(frozen=True)
class Samples:
    """Pictures (N, 28, 28) of uint8 and their labels (N,) of int64, on one device."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return pictures (n, 1, 28, 28), normalized, and labels (n,)."""
        images = self.images[indices].unsqueeze(1).float().div(255).sub(MEAN).div(DEVIATION)
        return images.contiguous(memory_format=torch.channels_last), self.labels[indices]


def load(root: Path, *, train: bool, limit: int | None, device: torch.device) -> Samples:
    """Read the training or the test set from `root`, at most the first `limit` of it.

    Raises:
        RuntimeError: the files are not there; they are never fetched from here, where every
            rank would fetch them again.
    """
    dataset = MNIST(root, train=train, download=False)
    return Samples(dataset.data[:limit].to(device), dataset.targets[:limit].to(device))
