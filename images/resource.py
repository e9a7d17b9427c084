"""The program's side of an image; its life is in `images/handler.py`."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions

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


def trainer_image(target: Input[Mapping[str, Any]]) -> Image:
    """Declare the image that training jobs run in unless they bring their own."""
    return Image(TRAINER, target=target)
