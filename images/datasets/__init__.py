"""Data sets of the trainer's images; add one as a module, a line here and an entry of YAML."""

from collections.abc import Mapping

from images.datasets.cifar10 import CIFAR10
from images.datasets.dataset import Dataset
from images.datasets.mnist import MNIST

DATASETS: Mapping[str, Dataset] = {"mnist": MNIST, "cifar10": CIFAR10}
