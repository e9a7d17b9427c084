"""Train a ResNet on a folder of PNG or JPEG files, on any number of ranks.

A single process:
    python3 -m slipway_trainer.images --data mnist_png --size 28
Two processes on one machine:
    torchrun --nproc-per-node 2 -m slipway_trainer.images --data mnist_png --workers 2
In a PyTorchJob with `data`, SLIPWAY_DATA_DIR is the folder. If neither this variable nor --data is
set, the program writes 6,000 of the container image's CIFAR-10 images as PNG files to train on.
"""

import slipway_trainer.demos.options  # noqa: F401, I001 - before torch

import argparse
import os
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torchvision import models

from slipway_trainer.data import pictures
from slipway_trainer.demos import loop, options
from slipway_trainer.demos.outputs import Task


class Net(nn.Module):  # type: ignore[misc]  # only the image has torch
    """One of torchvision's ResNets, untrained; resnet18 for 10 classes has 11,181,642 weights."""

    def __init__(self, arch: str, classes: int) -> None:
        super().__init__()
        self.resnet = models.get_model(arch, weights=None, num_classes=classes)

    def forward(self, x: Tensor) -> Tensor:  # (n, 3, size, size)
        # An epoch's last batch may be a single image. If its maps are one pixel, torch refuses to
        # normalize them for lack of variance, so the image is repeated.
        batch = x.repeat(2, 1, 1, 1) if self.training and len(x) == 1 else x
        return self.resnet(batch)[: len(x)]  # (n, classes), unnormalized log-probabilities


PARSER = options.parser(
    "slipway_trainer.images", __doc__, data=os.environ.get("SLIPWAY_DATA_DIR"), lr=0.01,
    log_interval=20, epochs=1, batch_size=32, workers=1, test_batch_size=100,
)  # fmt: skip
_add = PARSER.add_argument
_add("--arch", default="resnet18", choices=sorted(models.list_models(models.resnet)),
    metavar="NAME", help="one of torchvision's ResNets: resnet18, resnet50, …")  # fmt: skip
_add("--size", type=options.count, metavar="PIXELS", help="width and height of images; by "
    "default 224, or 32 for the built-in images")  # fmt: skip


def task(args: argparse.Namespace) -> Task:
    """Return the task that the command-line arguments describe."""
    written = cache(pictures.write_cifar10_images)
    size = args.size or (32 if args.data is None else 224)

    def load(data: Path | None, **chosen: Any) -> pictures.Pictures:
        return pictures.Pictures(written() if data is None else data, size=size, **chosen)

    return Task(lambda classes: Net(args.arch, classes), load, "resnet.pt")


if __name__ == "__main__":
    loop.main(PARSER, task)
