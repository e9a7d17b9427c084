"""The Pulumi resources for images; their handlers are in `images.image_lifecycle`.

An image reaches a cluster through a target: `Cluster.image_target`, a map with a `kind`. With the
kind `there`, images are prebuilt, in a registry that the cluster can read:

    {"kind": "there", "trainer": "example.org/trainer:1", "otherwise": {"kind": "registry", …}}

Prebuilt images are neither built nor pushed. Other images use the `otherwise` target, if there is
one. The program knows the prebuilt images' names in advance, so it declares no resources for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi import Input, Output

from core import toolchain
from images.build.job import JobImageSpec
from images.build.program import ENTRYPOINTS, Program
from images.build.releases import chosen
from images.build.spec import Spec
from images.build.trainer import ImageSpec, trainer
from images.targets.target import name_in

KIND = "there"
KEYS: Mapping[str, str] = {
    "slipway-trainer": "trainer",
    "slipway-trainer-cifar": "trainer",
    "slipway-trainer-cuda": "trainerCuda",
    "slipway-training-operator": "trainingOperator",
    "slipway-tcp-wait": "tcpWait",
    "slipway-mlflow": "mlflow",
    "slipway-postgres": "postgres",
}
"""The key, in a target with prebuilt images, for each image that Slipway can also build."""


class NotPrebuilt(pulumi.RunError):
    """A required image is not prebuilt, and there is no other target for it."""


def prebuilt_name(target: Mapping[str, Any], name: str) -> str | None:
    """Return a prebuilt image's reference, or None if it must be built and transferred."""
    if target.get("kind") != KIND or name not in KEYS:
        return None
    reference = target.get(KEYS[name])
    return None if reference is None else str(reference)


def way_in(target: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the target for an image that isn't prebuilt; raises `NotPrebuilt` if there is none."""
    if target.get("kind") != KIND:
        return target
    if (way := target.get("otherwise")) is not None:
        return dict(way)
    named = ", ".join(sorted(key for key in target if key != "kind")) or "none"
    instead = "set the job's `image` instead of `build` or `requirements`"
    what = f"add it as {KEYS[name]!r} to `images`" if name in KEYS else instead
    raise NotPrebuilt(
        f"the image {name} is not among the prebuilt images ({named}), and the cluster's settings "
        f"contain no registry to push it to: {what}, or add a registry"
    )


class Image(pulumi.CustomResource):
    """An image in a cluster. `more` adds inputs or, with the value None, outputs."""

    reference: Output[str]
    """The reference that pods use; it changes with the content."""
    built: Output[str]
    """The local reference, which a Dockerfile can use as its base."""
    pinned: Output[str]
    """For a job's own image: the reference that pods use, by digest."""

    def __init__(self, spec: Spec, *, target: Mapping[str, Any], **more: Input[Any]) -> None:
        outputs = dict.fromkeys(("reference", "imageDigest", "built"))
        properties = {**spec.inputs, "target": way_in(target, spec.repository), **outputs, **more}
        super().__init__(spec.type, spec.name, properties)


@dataclass(frozen=True)
class Trainer:
    """References to one of the trainer's images, or to another image from this checkout."""

    reference: Input[str]
    """The reference that pods use."""
    base: Input[str]
    """The reference that a job's own Dockerfile uses as its base."""


@dataclass(frozen=True)
class TrainerImages:
    """The trainer images; each is declared only when a job needs it, as the GPU image is large."""

    target: Mapping[str, Any]
    """The target for the images: `Cluster.image_target`."""
    torch: str | None = None
    """The torch version for jobs that do not set one; None means the default version."""

    _declared: dict[str, Trainer] = field(default_factory=dict, init=False)
    _of_jobs: dict[str, Image] = field(default_factory=dict, init=False)

    def spec(
        self, torch: str | None = None, *, gpus: bool = False, cifar: bool = False
    ) -> ImageSpec:
        """Return the specification of a job's trainer image; see `images.build.trainer.trainer`."""
        return trainer(chosen(torch, gpus=gpus, stack=self.torch).torch, gpus=gpus, cifar=cifar)

    def provide(self, spec: ImageSpec) -> Trainer:
        """Declare an image, unless it is already declared."""
        if spec.name not in self._declared:
            self._declared[spec.name] = declared(spec, self.target)
        return self._declared[spec.name]

    def of_job(self, own: JobImageSpec, base: ImageSpec) -> Input[str]:
        """Declare a job's own image, and return its reference by digest.

        Jobs with the same packages share one image.
        """
        if own.name not in self._of_jobs:
            start = self.provide(base).base if not own.problems() and own.wants_trainer else None
            self._of_jobs[own.name] = Image(own, target=self.target, trainer=start, pinned=None)
        return self._of_jobs[own.name].pinned


def declared(spec: ImageSpec, target: Mapping[str, Any]) -> Trainer:
    """Return a prebuilt image's references, or else declare the image; raises `NotPrebuilt`."""
    if (prebuilt := prebuilt_name(target, spec.repository)) is not None:
        return Trainer(prebuilt, prebuilt)
    image = Image(spec, target=target)
    return Trainer(image.reference, image.built)


def helper_images(target: Mapping[str, Any]) -> tuple[Mapping[str, str], list[pulumi.Resource]]:
    """Declare the images that the operator needs, so that no cluster pulls them from the internet.

    Returns the value for `Cluster.images`, and the resources that provide these images. If the
    target is a registry, its `server` must be a plain string, not an `Output`.
    """
    images: dict[str, str] = {}
    resources: list[pulumi.Resource] = []
    for name, entrypoint in ENTRYPOINTS.items():
        if (prebuilt := prebuilt_name(target, f"slipway-{name}")) is None:
            program = Program.from_tool(toolchain.tool(name), entrypoint)
            resources.append(Image(program, target=target))
            prebuilt = str(name_in(way_in(target, program.repository), program.reference))
        images[name] = prebuilt
    return images, resources
