"""The images that training jobs run in unless they bring their own: for CPUs, and for GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pulumi import Input

from images.build.trainer import TRAINER, TRAINER_CIFAR, TRAINER_CUDA, ImageSpec
from images.prebuilt import given, way_in
from images.resource import Image


@dataclass(frozen=True)
class Trainer:
    """One of the trainer's images.

    Args:
        reference: What a pod calls it.
        base: What a job's own Dockerfile starts from.
    """

    reference: Input[str]
    base: Input[str]


@dataclass(frozen=True)
class TrainerImages:
    """All of the trainer's images, each declared once it is needed: that for GPUs is several GB.

    Args:
        target: How they get in: `Cluster.image_target`.
    """

    target: Mapping[str, Any]

    @cached_property
    def cpu(self) -> Trainer:
        """The one with Debian's torch, and with MNIST."""
        return self._declared(TRAINER)

    @cached_property
    def cifar(self) -> Trainer:
        """The same, with CIFAR-10 besides.

        It is an image of its own: who does not read CIFAR-10 need not fetch it, and a stack that
        gets a job which does will not train its other jobs again.
        """
        return self._declared(TRAINER_CIFAR)

    @cached_property
    def cuda(self) -> Trainer:
        """The one with torch for CUDA, and with both data sets."""
        return self._declared(TRAINER_CUDA)

    def for_job(self, *, gpus: bool, cifar: bool) -> Trainer:
        """Return the one for a job that gets GPUs or none, and reads CIFAR-10 or does not."""
        return self.cuda if gpus else self.cifar if cifar else self.cpu

    def _declared(self, spec: ImageSpec) -> Trainer:
        prebuilt = given(self.target, spec.repository)
        if prebuilt is not None:
            return Trainer(prebuilt, prebuilt)
        image = Image(spec, target=way_in(self.target, spec.repository))
        return Trainer(image.reference, image.built)
