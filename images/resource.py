"""The program's side of images; their life is in `images.handler` and `images.job_handler`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

from images.job import JobImageSpec
from images.spec import TRAINER, ImageSpec


class Image(pulumi.CustomResource):
    """An image that a cluster's nodes have.

    Args:
        spec: What is in it.
        target: How it gets in: `Cluster.image_target`.
    """

    reference: Output[str]
    """What a pod calls it; it changes with the content."""
    image_digest: Output[str]

    def __init__(
        self,
        spec: ImageSpec,
        *,
        target: Input[Mapping[str, Any]],
        opts: ResourceOptions | None = None,
    ) -> None:
        properties = {
            "name": spec.name,
            "context": str(spec.context),
            "contentHash": spec.content_hash,
            "datasets": sorted(spec.datasets),
            "target": target,
            "reference": None,
            "imageDigest": None,
        }
        super().__init__("slipway:images:Image", spec.name, properties, opts)


class JobImage(pulumi.CustomResource):
    """An image out of a job's own Dockerfile, that a cluster's nodes have.

    Args:
        spec: What it is built from. Without such a folder or Dockerfile the preview fails.
        target: How it gets in: `Cluster.image_target`.
        trainer: The reference of the trainer's image, which a Dockerfile may start from.
    """

    reference: Output[str]
    image_digest: Output[str]
    pinned: Output[str]
    """What a pod calls it: by its digest."""

    def __init__(
        self,
        spec: JobImageSpec,
        *,
        target: Input[Mapping[str, Any]],
        trainer: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        is_sound = not spec.problems()
        properties = {
            "name": spec.job,
            "context": str(spec.context),
            "dockerfile": spec.dockerfile,
            "contentHash": spec.content_hash if is_sound else "",
            "trainer": trainer if is_sound and spec.wants_trainer else None,
            "target": target,
            "reference": None,
            "imageDigest": None,
            "pinned": None,
        }
        super().__init__("slipway:images:JobImage", spec.job, properties, opts)


def trainer_image(target: Input[Mapping[str, Any]]) -> Image:
    """Declare the image that training jobs run in unless they bring their own."""
    return Image(TRAINER, target=target)


def job_image(  # noqa: PLR0913  # two places, two resources, a name, and options
    name: str,
    context: Path,
    dockerfile: str,
    *,
    target: Input[Mapping[str, Any]],
    trainer: Input[str],
    opts: ResourceOptions | None = None,
) -> JobImage:
    """Declare the image that the job `name` brings: a pod runs its `pinned`.

    Args:
        name: The job's.
        context: The folder that it is built from.
        dockerfile: The Dockerfile's path in it. With `ARG TRAINER` and `FROM ${TRAINER}` it starts
            from the trainer's image, for which no registry is needed.
        target: How it gets in: `Cluster.image_target`.
        trainer: The reference of the trainer's image.
        opts: As for every resource.
    """
    spec = JobImageSpec(name, context, dockerfile)
    return JobImage(spec, target=target, trainer=trainer, opts=opts)
