"""The programs in the trainer's image that the catalogue runs, and what they take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jobs.spec.names import OUTPUT_DIR

ModuleName = Literal["mnist", "cifar", "mnist_elastic", "images"]


@dataclass(frozen=True)
class Module:
    """A program in the trainer's image.

    Args:
        options: The command line's option for each of a job's fields that it takes.
        defaults: The fields' values unless the job has others.
        arguments: Its other arguments, always.
        memory: Each of its processes needs so much; with less the kernel ends it. Measured in a
            control group: 300 MiB for MNIST, 303 MiB elastic, 582 MiB for CIFAR. A process of
            images had 558 MiB at most, beside one that decodes pictures.
        is_elastic: Whether it goes on when replicas are lost, and needs an elastic job for that.
    """

    options: Mapping[str, str]
    defaults: Mapping[str, Any]
    memory: str
    arguments: tuple[str, ...] = ()
    is_elastic: bool = False


_OPTIONS = {
    "epochs": "--epochs",
    "batch_size": "--batch-size",
    "learning_rate": "--lr",
    "momentum": "--momentum",
    "seed": "--seed",
    "goal": "--goal",
}
_MNIST = {"epochs": 1, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.9, "seed": 1}

MODULES: Mapping[str, Module] = {
    "mnist": Module(_OPTIONS, _MNIST, memory="320Mi"),
    "mnist_elastic": Module(_OPTIONS, _MNIST, memory="320Mi", is_elastic=True),
    "cifar": Module(
        {**_OPTIONS, "learning_rate": "--learning-rate"},
        {"epochs": 1, "batch_size": 32, "learning_rate": 0.02, "momentum": 0.9, "seed": 1},
        memory="640Mi",
        arguments=("--data-dir", "/data/cifar10", "--output-dir", OUTPUT_DIR),
    ),
    "images": Module(_OPTIONS, {**_MNIST, "batch_size": 32}, memory="900Mi"),
}

HYPERPARAMETERS = tuple(_OPTIONS)
"""The fields of a job that only these programs take."""
