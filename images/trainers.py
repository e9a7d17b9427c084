"""The images that training jobs run in unless they bring their own: for CPUs, and for GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pulumi import Input

from images.resource import Image
from images.spec import TRAINER, TRAINER_CUDA, ImageSpec
from images.there import given, way_in


@dataclass(frozen=True)
class Trainer:
    """One of them.

    Args:
        reference: What a pod calls it.
        base: What a job's own Dockerfile starts from.
    """

    reference: Input[str]
    base: Input[str]


@dataclass(frozen=True)
class TrainerImages:
    """Both of them. Each is declared when it is first asked for: the one for GPUs is several GB.

    Args:
        target: How they get in: `Cluster.image_target`.
    """

    target: Mapping[str, Any]

    @cached_property
    def cpu(self) -> Trainer:
        """The one with Debian's torch."""
        return self._declared(TRAINER)

    @cached_property
    def cuda(self) -> Trainer:
        """The one with torch for CUDA."""
        return self._declared(TRAINER_CUDA)

    def for_job(self, *, gpus: bool) -> Trainer:
        """Return the one for a job that asks for GPUs, or for none."""
        return self.cuda if gpus else self.cpu

    def _declared(self, spec: ImageSpec) -> Trainer:
        there = given(self.target, spec.name)
        if there is not None:
            return Trainer(there, there)
        image = Image(spec, target=way_in(self.target, spec.name))
        return Trainer(image.reference, image.built)
