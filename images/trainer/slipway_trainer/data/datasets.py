"""Data sets that yield batches: held in memory as two tensors, or read from files (`pictures`).

torchvision's own classes read the files, which the trainer image contains.
"""

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets
from torchvision.datasets import MNIST

from slipway.checkpoint_store import sha256_of
from slipway.termination import about
from slipway_trainer.data import at_hand

MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the unpacked files; torchvision publishes only the archives' MD5."""


class Data(Dataset):  # type: ignore[misc]  # only the image has torch
    """A training or test set: `len` is the number of samples.

    `data[indices]` returns images (n, colors, height, width) and labels (n,), to pass to `placed`.
    """

    name: str
    """The data set's real name."""
    classes: tuple[str, ...]
    """The class names, by label."""

    def placed(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return a loaded batch on the model's device, converted for training."""
        return images, labels

    def loaded(
        self, shares: Iterable[tuple[Tensor, float]], workers: int
    ) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Yield images, labels and weight for each of `shares`: pairs of indices and weight.

        `workers` processes load batches in advance; if it is 0, this process loads them.
        """
        ahead, shares = tee(shares)
        loader = DataLoader(
            self,
            sampler=(share for share, _ in ahead),
            batch_size=None,
            num_workers=workers,
            pin_memory=workers > 0 and torch.cuda.is_available(),
            worker_init_fn=_end_on_sigterm,
            # Separate, so that the model's random numbers do not depend on the number of processes.
            generator=torch.Generator(),
        )
        for batch, (_, weight) in zip(loader, shares, strict=False):
            yield *self.placed(*batch), weight

    def batches(
        self, indices: Tensor, size: int, workers: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `indices` in batches of `size`, or nothing if there are no indices."""
        shares = ((batch, 1.0) for batch in indices.split(size) if len(batch) > 0)
        for images, labels, _ in self.loaded(shares, workers):
            yield images, labels


@dataclass(frozen=True)
class Samples(Data):
    """A training or test set held in one device's memory."""

    name: str
    classes: tuple[str, ...]
    images: Tensor
    """Images (N, height, width, colors) as uint8."""
    labels: Tensor
    """Their classes (N,) as int64."""
    mean: float
    """The mean of all training pixels, after scaling to 0..1."""
    deviation: float

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        indices = indices.to(self.labels.device)
        # Colors stay adjacent, as in channels_last, which is fastest for convolutions.
        images = self.images.index_select(0, indices).permute(0, 3, 1, 2).float()
        images = images.sub_(255 * self.mean).div_(255 * self.deviation)
        return images, self.labels.index_select(0, indices)

    def loaded(
        self, shares: Iterable[tuple[Tensor, float]], workers: int
    ) -> Iterator[tuple[Tensor, Tensor, float]]:
        # Worker processes can't read this process's GPU memory.
        return super().loaded(shares, 0 if self.labels.is_cuda else workers)


class CIFAR10(datasets.CIFAR10):  # type: ignore[misc]  # only the image has torchvision
    """torchvision's CIFAR10, with the real name of its data."""

    @property
    def name(self) -> str:
        """The data set's real name, not `cifar10` if the image contains a replacement."""
        is_own = self.train_list == datasets.CIFAR10.train_list
        return "cifar10" if is_own else str(about(at_hand.IMAGE / "cifar10")["name"])


def mnist(root: Path, *, train: bool, limit: int | None, device: torch.device) -> Samples:
    """Read MNIST, at most `limit` samples; raises `RuntimeError` for missing or changed files."""
    dataset = MNIST(root, train=train, download=False)
    folder, prefix = Path(dataset.raw_folder), "train" if train else "t10k"
    for name, published in MNIST_SHA256.items():
        if name.startswith(prefix) and (actual := sha256_of(folder / name)) != published:
            raise RuntimeError(
                f"{folder / name} is not the original MNIST file: its sha256 is {actual}, but the "
                f"published one is {published}. Download the file again"
            )
    return Samples(
        "mnist",
        tuple(str(digit) for digit in range(10)),
        dataset.data[:limit].unsqueeze(3).to(device),
        dataset.targets[:limit].to(device),
        mean=0.1307,
        deviation=0.3081,
    )


def cifar10(root: Path, *, train: bool, limit: int | None, device: torch.device) -> Samples:
    """Read CIFAR-10 or its replacement, at most `limit` samples; may raise `RuntimeError`."""
    dataset = CIFAR10(root, train=train, download=False)
    return Samples(
        dataset.name,
        tuple(dataset.classes),
        torch.from_numpy(dataset.data[:limit]).contiguous().to(device),
        torch.tensor(dataset.targets[:limit]).to(device),
        mean=0.5,  # together they map 0..1 to -1..1
        deviation=0.5,
    )


def _end_on_sigterm(_worker: int) -> None:
    """Unblock SIGTERM, which ranks block (see `report`), so that a rank can stop its workers."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
