"""Data sets that training images carry. A new one is one module and one line here."""

from collections.abc import Mapping

from images.datasets import cifar10, mnist
from images.datasets.dataset import Choice

__all__ = ["DATASETS", "Choice"]

DATASETS: Mapping[str, Choice] = {
    "mnist": Choice("mnist", (mnist.MNIST,)),
    "cifar10": cifar10.CIFAR10,
}
