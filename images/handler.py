"""The resource `slipway:images:Image`: an image out of this checkout, that a cluster has."""

from pathlib import Path
from typing import ClassVar

from core.context import Context
from core.handler import Properties
from images.build import build
from images.datasets import DATASETS
from images.life import ImageLife
from images.spec import DOCKERFILE, ImageSpec


class ImageHandler(ImageLife[ImageSpec]):
    """Inputs: `name`, `context`, `dockerfile`, `datasets`, `contentHash` and `target`."""

    type: ClassVar[str] = "slipway:images:Image"

    def spec(self, inputs: Properties) -> ImageSpec:
        datasets = {name: DATASETS[name] for name in inputs["datasets"]}
        dockerfile = inputs.get("dockerfile", DOCKERFILE)
        return ImageSpec(inputs["name"], Path(inputs["context"]), datasets, dockerfile)

    def built(self, spec: ImageSpec, context: Context) -> Path:
        return build(spec, context)
