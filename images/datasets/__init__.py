"""Data sets that training images carry. A new one is one module and one line here."""

from collections.abc import Mapping

from images.datasets import cifar10, mnist
from images.datasets.dataset import Choice, Dataset

__all__ = ["DATASETS", "Choice", "Dataset"]

DATASETS: Mapping[str, Dataset | Choice] = {
    "mnist": mnist.MNIST,
    "cifar10": cifar10.CIFAR10,
}
