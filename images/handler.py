"""The resource `slipway:images:Image`: an image that a node has, built when nobody has it yet."""

from pathlib import Path
from typing import Any, ClassVar

from images.build import build
from images.containerd import Node, NodeError
from images.datasets import DATASETS
from images.spec import ImageSpec
from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties
from infra.plugin.values import UNKNOWN


class ImageHandler(Handler):
    """Its life: what counts is that the node has the image of this content."""

    type: ClassVar[str] = "slipway:images:Image"
    outputs: ClassVar[tuple[str, ...]] = ("reference", "imageDigest")

    def diff(self, resource_id: str, state: Properties, inputs: Properties) -> list[Change]:
        """Only the content of the context counts, not where it lies; a node may be down."""
        changes = [
            Change(key) for key in ("name", "contentHash", "target") if state[key] != inputs[key]
        ]
        if not changes and self._digest(state) != state["imageDigest"]:
            changes.append(Change("imageDigest", drift=True))
        return changes

    def preview(self, state: Properties | None, inputs: Properties) -> Properties:
        """The reference follows from the content, so that a preview shows the new one."""
        if inputs["contentHash"] is UNKNOWN:
            return {"reference": UNKNOWN, "imageDigest": UNKNOWN}
        same = state is not None and state["contentHash"] == inputs["contentHash"]
        digest = state["imageDigest"] if state is not None and same else UNKNOWN
        return {"reference": _spec(inputs).reference, "imageDigest": digest}

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Build the image unless the node or the cache has it, and import it.

        Raises:
            RuntimeError: the context's files have changed since they were hashed.
        """
        spec, node = _spec(inputs), Node.of(inputs["target"])
        if spec.content_hash != inputs["contentHash"]:
            raise RuntimeError(f"{spec.context} has changed during this run; run it again")
        digest = node.digest(spec.reference)
        if digest is None:
            archive = build(spec, context)
            context.status(f"importing {spec.reference}")
            node.load(archive)
            digest = node.digest(spec.reference)
        if digest is None:
            raise RuntimeError(
                f"{archive} was imported but does not hold {spec.reference}; "
                f"remove it and run `make up` again"
            )
        return spec.reference, {"reference": spec.reference, "imageDigest": digest}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """Return what the node has, None when it hasn't the image."""
        node = Node.of(state["target"])
        digest = node.digest(state["reference"]) if node.is_up else None
        if digest is None:
            return None
        return {"reference": state["reference"], "imageDigest": digest}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring the image of the new content in; the old one goes, where it is another."""
        _, outputs = self.create(inputs, context)
        if (state["reference"], state["target"]) != (outputs["reference"], inputs["target"]):
            self.delete(resource_id, state, context)
        return outputs

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Remove the image from the node; one that is not up is on its way out with its images."""
        node = Node.of(state["target"])
        if node.is_up:
            node.remove(state["reference"])

    def _digest(self, state: Properties) -> Any:
        """Return the digest that the node has; a node that can't be asked has not lost anything."""
        node = Node.of(state["target"])
        try:
            return node.digest(state["reference"]) if node.is_up else state["imageDigest"]
        except NodeError:
            return state["imageDigest"]


def _spec(inputs: Properties) -> ImageSpec:
    datasets = {name: DATASETS[name] for name in inputs["datasets"]}
    return ImageSpec(inputs["name"], Path(inputs["context"]), datasets)
