"""The program's side of images; their life is in `images.handler`."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from core import toolchain
from images.build.job import JobImageSpec
from images.build.program import ENTRYPOINTS, Program
from images.build.trainer import ImageSpec
from images.prebuilt import given, way_in
from images.targets.target import name_in

_OUTPUTS = {"reference": None, "imageDigest": None, "built": None}


class Image(pulumi.CustomResource):
    """An image that a cluster has.

    Args:
        spec: What is in it.
        target: How it gets in: `Cluster.image_target`.
    """

    reference: Output[str]
    """What a pod calls it; it changes with the content."""
    built: Output[str]
    """What it is called where it is built: what a Dockerfile starts from."""

    def __init__(
        self, spec: ImageSpec, *, target: Mapping[str, Any], opts: ResourceOptions | None = None
    ) -> None:
        properties = {
            "name": spec.name,
            "context": str(spec.context),
            "dockerfile": spec.dockerfile,
            "contentHash": spec.content_hash,
            "datasets": sorted(spec.datasets),
            "target": target,
            **_OUTPUTS,
        }
        super().__init__("slipway:images:Image", spec.name, properties, opts)


class JobImage(pulumi.CustomResource):
    """An image out of a job's own Dockerfile, that a cluster has.

    Args:
        spec: What it is built from. Without such a folder or Dockerfile the preview fails. With
            `ARG TRAINER` and `FROM ${TRAINER}` the Dockerfile starts from the trainer's image, for
            which no registry is needed.
        target: How it gets in: `Cluster.image_target`.
        trainer: The trainer's image: `images.trainers.Trainer.base`.
        opts: As for every resource.

    Raises:
        images.prebuilt.NotPrebuilt: nothing can be brought in.
    """

    reference: Output[str]
    built: Output[str]
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
        is_sound = not spec.problems()
        properties = {
            "name": spec.name,
            "context": str(spec.context),
            "dockerfile": spec.dockerfile,
            "contentHash": spec.content_hash if is_sound else "",
            "trainer": trainer if is_sound and spec.wants_trainer else None,
            "target": way_in(target, spec.repository),
            **_OUTPUTS,
            "pinned": None,
        }
        super().__init__("slipway:images:JobImage", spec.name, properties, opts)


class ProgramImage(pulumi.CustomResource):
    """An image of one program of the toolchain, that a cluster has.

    Args:
        name: The resource's.
        program: Which.
        target: How it gets in: `Cluster.image_target`.
    """

    reference: Output[str]

    def __init__(
        self,
        name: str,
        program: Program,
        *,
        target: Mapping[str, Any],
        opts: ResourceOptions | None = None,
    ) -> None:
        properties = {
            "name": program.name,
            "path": str(program.context),
            "version": program.tool_version,
            "entrypoint": program.entrypoint,
            "contentHash": program.content_hash,
            "target": target,
            **_OUTPUTS,
        }
        super().__init__("slipway:images:Program", name, properties, opts)


def helper_images(
    target: Mapping[str, Any], prefix: str = ""
) -> tuple[Mapping[str, str], list[pulumi.Resource]]:
    """Declare the images that the operator needs, so that no cluster pulls them from anywhere.

    Args:
        target: How they get in: `Cluster.image_target`. What their names follow from, a registry's
            `server`, has to be a plain string.
        prefix: What the resources' names begin with.

    Returns:
        `Cluster.images`, and what to add to `Cluster.needs`.

    Raises:
        core.toolchain.ToolMissing: `make setup` has not provided a program.
        images.prebuilt.NotPrebuilt: the target names no such image, and no way to bring it in.
    """
    images: dict[str, str] = {}
    resources: list[pulumi.Resource] = []
    for name, entrypoint in ENTRYPOINTS.items():
        prebuilt = given(target, f"slipway-{name}")
        if prebuilt is not None:
            images[name] = prebuilt
            continue
        program = Program.of(toolchain.tool(name), entrypoint)
        way = way_in(target, program.repository)
        images[name] = str(name_in(way, program.reference))
        resources.append(ProgramImage(f"{prefix}{name}", program, target=way))
    return images, resources
