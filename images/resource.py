"""The program's side of images; their life is in `images.handler`.

An image gets into a cluster by a target: `Cluster.image_target`, a map with a `kind`. With the kind
`there`, images are prebuilt, in a registry that the cluster can read:

    {"kind": "there", "trainer": "example.org/trainer:1", "otherwise": {"kind": "registry", …}}

Nothing is built for them and nothing is pushed. What it does not name comes by the target
`otherwise`, where it has one. The program knows its names in advance, so no resource needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from core import toolchain
from images.build.job import JobImageSpec
from images.build.program import ENTRYPOINTS, Program
from images.build.spec import Spec
from images.build.trainer import TRAINER, TRAINER_CIFAR, TRAINER_CUDA, ImageSpec
from images.targets.target import name_in

KIND = "there"
KEYS: Mapping[str, str] = {
    "slipway-trainer": "trainer",
    "slipway-trainer-cifar": "trainer",
    "slipway-trainer-cuda": "trainerCuda",
    "slipway-training-operator": "trainingOperator",
    "slipway-tcp-wait": "tcpWait",
}
"""By which key it names each image that is built here otherwise."""
_OTHERWISE = "otherwise"


class NotPrebuilt(pulumi.RunError):
    """An image that a stack needs is not prebuilt, and no other way to bring it in exists."""


def given(target: Mapping[str, Any], name: str) -> str | None:
    """Return what a pod calls the image of that name; None when it has to be brought in."""
    if target.get("kind") != KIND or name not in KEYS:
        return None
    reference = target.get(KEYS[name])
    return None if reference is None else str(reference)


def way_in(target: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the target by which the image of that name, which isn't prebuilt, is brought in.

    Raises:
        NotPrebuilt: no such target is configured.
    """
    if target.get("kind") != KIND:
        return target
    way = target.get(_OTHERWISE)
    if way is None:
        named = sorted(key for key in target if key != "kind")
        what = (
            f"name it as {KEYS[name]!r}" if name in KEYS else "give the job an `image`, no `build`"
        )
        raise NotPrebuilt(
            f"the image {name} is not among the prebuilt ones ({', '.join(named) or 'none'}), "
            f"and the cluster's settings name no registry to push it to: {what}, or name a registry"
        )
    return dict(way)


class Image(pulumi.CustomResource):
    """An image that a cluster has.

    Args:
        spec: What is in it.
        target: How it gets in.
        name: The resource's; as the image by default.
        opts: As for every resource.
        more: Further inputs, and outputs as None.
    """

    reference: Output[str]
    """What a pod calls it; it changes with the content."""
    built: Output[str]
    """What it is called where it is built: what a Dockerfile starts from."""

    def __init__(
        self,
        spec: Spec,
        *,
        target: Mapping[str, Any],
        name: str | None = None,
        opts: ResourceOptions | None = None,
        **more: Input[Any],
    ) -> None:
        outputs = dict.fromkeys(("reference", "imageDigest", "built"))
        properties = {**spec.inputs, "target": target, **outputs, **more}
        super().__init__(spec.type, spec.name if name is None else name, properties, opts)


class JobImage(Image):
    """An image out of a job's own Dockerfile, that a cluster has.

    Args:
        spec: What it is built from. Without such a folder or Dockerfile the preview fails. With
            `ARG TRAINER` and `FROM ${TRAINER}` the Dockerfile starts from the trainer's image, for
            which no registry is needed.
        target: How it gets in.
        trainer: The trainer's image: `Trainer.base`.
        opts: As for every resource.

    Raises:
        NotPrebuilt: nothing can be brought in.
    """

    pinned: Output[str]
    """What a pod calls it: by its digest."""

    def __init__(
        self,
        spec: JobImageSpec,
        *,
        target: Mapping[str, Any],
        trainer: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        base = trainer if not spec.problems() and spec.wants_trainer else None
        way = way_in(target, spec.repository)
        super().__init__(spec, target=way, opts=opts, trainer=base, pinned=None)


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


def helper_images(
    target: Mapping[str, Any], prefix: str = ""
) -> tuple[Mapping[str, str], list[pulumi.Resource]]:
    """Declare the images that the operator needs, so that no cluster pulls them from anywhere.

    Args:
        target: How they get in: a target. What their names follow from, a registry's
            `server`, has to be a plain string.
        prefix: What the resources' names begin with.

    Returns:
        `Cluster.images`, and what to add to `Cluster.needs`.

    Raises:
        core.toolchain.ToolMissing: `make setup` has not provided a program.
        NotPrebuilt: the target names no such image, and no way to bring it in.
    """
    images: dict[str, str] = {}
    resources: list[pulumi.Resource] = []
    for name, entrypoint in ENTRYPOINTS.items():
        prebuilt = given(target, f"slipway-{name}")
        if prebuilt is not None:
            images[name] = prebuilt
            continue
        program = Program.of_tool(toolchain.tool(name), entrypoint)
        way = way_in(target, program.repository)
        images[name] = str(name_in(way, program.reference))
        resources.append(Image(program, target=way, name=f"{prefix}{name}"))
    return images, resources
