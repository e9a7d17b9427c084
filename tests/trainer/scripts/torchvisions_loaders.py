"""What torchvision's own loaders find, as a program that knows nothing of Slipway calls them."""

import json
import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torchvision.datasets.cifar
import torchvision.datasets.mnist
from torchvision.datasets import CIFAR10, CIFAR100, EMNIST, KMNIST, MNIST, QMNIST, FashionMNIST


class FastMNIST(MNIST):  # type: ignore[misc]
    """A subclass, as many programs have one."""


def nothing_is_downloaded(*_arguments: Any, **_options: Any) -> None:
    raise RuntimeError("a download")


def downloads(load: Callable[[], object]) -> bool:
    try:
        load()
    except RuntimeError as error:
        return "a download" in str(error)
    return False


def each(root: str) -> object:
    found = {}
    kinds = [MNIST, FashionMNIST, FastMNIST, *([CIFAR10] if root in {"data", "/proc/no"} else [])]
    for kind in kinds:
        train, test = kind(root, train=True, download=True), kind(root, train=False)
        found[kind.__name__] = len(train), len(test), int(train.targets[0])
    return found


def racing(root: str) -> object:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=FashionMNIST, args=(root, False)) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def kept(root: str) -> object:
    """Labels of 1,000 digits are there already, and a file of CIFAR-10's name."""
    name, count = "MNIST/raw/t10k-labels-idx1-ubyte", 1000
    labels = Path("/data/mnist", name).read_bytes()
    mine, batch = Path(root, name), Path(root, "cifar-10-batches-py/test_batch")
    for file in (mine, batch):
        file.parent.mkdir(parents=True)
    mine.write_bytes(labels[:4] + count.to_bytes(4) + labels[8 : 8 + count])
    batch.write_bytes(b"something else")
    refused = downloads(lambda: CIFAR10(root, train=False, download=True))
    return {"labels": len(MNIST(root, train=False).targets), "refused": refused}


def classes(root: str) -> object:
    return CIFAR10(root, train=False, download=True).classes


def others(root: str) -> object:
    EMNIST.download = nothing_is_downloaded
    found = {
        kind.__name__: downloads(lambda kind=kind: kind(root, download=True))  # type: ignore[misc]
        for kind in (KMNIST, QMNIST, CIFAR100)
    }
    return {**found, "EMNIST": downloads(lambda: EMNIST(root, "digits", download=True))}


for module in (torchvision.datasets.cifar, torchvision.datasets.mnist):
    module.download_and_extract_archive = nothing_is_downloaded
results = {
    **{root: each(root) for root in sys.argv[1:]},
    **{what.__name__: what(what.__name__) for what in (racing, kept, classes, others)},
}
sys.stdout.write(f"{json.dumps(results)}\n")
