"""Data sets for trainer images; each has a module, a line here and an entry in datasets.yaml."""

from collections.abc import Mapping

from images.datasets.cifar10 import CIFAR10
from images.datasets.dataset import Dataset
from images.datasets.mnist import MNIST

DATASETS: Mapping[str, Dataset] = {"mnist": MNIST, "cifar10": CIFAR10}
