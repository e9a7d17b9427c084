"""The Pulumi resources of images; their handlers are in `images.image_lifecycle`.

An image gets to a cluster through a target: `Cluster.image_target`, a map with a `kind`. With the
kind `there`, images are prebuilt, in a registry that the cluster can read:

    {"kind": "there", "trainer": "example.org/trainer:1", "otherwise": {"kind": "registry", …}}

They are neither built nor pushed. Other images use the target `otherwise`, if there is one. The
program knows the names in advance, so that prebuilt images need no resource.
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
"""The key of such a target for each image that Slipway otherwise builds."""


class NotPrebuilt(pulumi.RunError):
    """A required image is not prebuilt, and there is no other target for it."""


def prebuilt_name(target: Mapping[str, Any], name: str) -> str | None:
    """Return the reference of a prebuilt image; None if it must be built and transferred."""
    if target.get("kind") != KIND or name not in KEYS:
        return None
    reference = target.get(KEYS[name])
    return None if reference is None else str(reference)


def way_in(target: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the target for an image that isn't prebuilt; raises `NotPrebuilt` without one."""
    if target.get("kind") != KIND:
        return target
    if (way := target.get("otherwise")) is not None:
        return dict(way)
    named = ", ".join(sorted(key for key in target if key != "kind")) or "none"
    instead = "give the job an `image`, no `build` or `requirements`"
    what = f"name it as {KEYS[name]!r}" if name in KEYS else instead
    raise NotPrebuilt(
        f"the image {name} is not among the prebuilt ones ({named}), and the cluster's settings "
        f"name no registry to push it to: {what}, or name a registry"
    )


class Image(pulumi.CustomResource):
    """An image in a cluster; `more` are inputs, and outputs as None. Raises `NotPrebuilt`."""

    reference: Output[str]
    """The reference for pods, which changes with the content."""
    built: Output[str]
    """The local reference, which a Dockerfile can use as its base."""
    pinned: Output[str]
    """For a job's own image: the reference for pods, by its digest."""

    def __init__(self, spec: Spec, *, target: Mapping[str, Any], **more: Input[Any]) -> None:
        outputs = dict.fromkeys(("reference", "imageDigest", "built"))
        properties = {**spec.inputs, "target": way_in(target, spec.repository), **outputs, **more}
        super().__init__(spec.type, spec.name, properties)


@dataclass(frozen=True)
class Trainer:
    """The references of one of the trainer's images, or of another one of this checkout."""

    reference: Input[str]
    """The reference for pods."""
    base: Input[str]
    """The reference for a job's own Dockerfile, as its base."""


@dataclass(frozen=True)
class TrainerImages:
    """The trainer's images, each declared when it is needed, since the one for GPUs is large."""

    target: Mapping[str, Any]
    """The target of the images: `Cluster.image_target`."""
    torch: str | None = None
    """The version of torch for jobs without one; None for the default."""

    _declared: dict[str, Trainer] = field(default_factory=dict, init=False)
    _of_jobs: dict[str, Image] = field(default_factory=dict, init=False)

    def spec(
        self, torch: str | None = None, *, gpus: bool = False, cifar: bool = False
    ) -> ImageSpec:
        """Return the image for a job; see `images.build.trainer.trainer`."""
        release = chosen(torch, gpus=gpus, stack=self.torch)
        return trainer(release.torch, gpus=gpus, cifar=cifar)

    def provide(self, spec: ImageSpec) -> Trainer:
        """Declare an image, unless it is declared already."""
        if spec.name not in self._declared:
            self._declared[spec.name] = declared(spec, self.target)
        return self._declared[spec.name]

    def of_job(self, own: JobImageSpec, base: ImageSpec) -> Input[str]:
        """Declare a job's own image, which jobs with the same packages share; return its name."""
        if own.name not in self._of_jobs:
            has_trainer = not own.problems() and own.wants_trainer
            start = self.provide(base).base if has_trainer else None
            self._of_jobs[own.name] = Image(own, target=self.target, trainer=start, pinned=None)
        return self._of_jobs[own.name].pinned


def declared(spec: ImageSpec, target: Mapping[str, Any]) -> Trainer:
    """Return an image of this checkout: prebuilt, or to be built; raises `NotPrebuilt`."""
    if (prebuilt := prebuilt_name(target, spec.repository)) is not None:
        return Trainer(prebuilt, prebuilt)
    image = Image(spec, target=target)
    return Trainer(image.reference, image.built)


def helper_images(target: Mapping[str, Any]) -> tuple[Mapping[str, str], list[pulumi.Resource]]:
    """Declare the images that the operator needs, so that no cluster pulls them from the internet.

    Returns `Cluster.images`, and the resources that provide them. A registry's `server` must be a
    plain string.
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
