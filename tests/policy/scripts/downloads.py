"""Fetches its data in every rank."""

from torchvision.datasets import MNIST

train = MNIST("data", train=True, download=True)
