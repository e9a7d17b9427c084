"""Data sets that training images carry. A new one is one module and one line here."""

from collections.abc import Mapping

from images.datasets import mnist
from images.datasets.dataset import Dataset

__all__ = ["DATASETS", "Dataset"]

DATASETS: Mapping[str, Dataset] = {
    "mnist": mnist.MNIST,
}
