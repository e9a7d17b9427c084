"""The resource `slipway:images:JobImage`: a job's own image, which pods call by its digest."""

from pathlib import Path
from typing import ClassVar

from images.build import build
from images.containerd import Node
from images.handler import ImageHandler
from images.job import JobImageSpec
from images.plan import Spec
from images.spec import TRAINER
from infra.plugin.context import Context
from infra.plugin.handler import CheckFailure, Properties


class JobImageHandler(ImageHandler):
    """Its life: what counts is that the node has the image of this content, by its digest."""

    type: ClassVar[str] = "slipway:images:JobImage"
    outputs: ClassVar[tuple[str, ...]] = ("reference", "imageDigest", "pinned")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "trainer", "target")

    def check(self, inputs: Properties) -> list[CheckFailure]:
        """Refuse a context that can't be built from, before anything is made."""
        problems = self.spec(inputs).problems()
        return [CheckFailure(key, reason) for key, reason in problems.items()]

    def spec(self, inputs: Properties) -> JobImageSpec:
        return JobImageSpec(
            inputs["name"], Path(inputs["context"]), inputs["dockerfile"], inputs.get("trainer")
        )

    def outputs_on(self, node: Node, reference: str) -> Properties | None:
        """The node has to know the image by its digest, too."""
        found = super().outputs_on(node, reference)
        if found is None:
            return None
        pinned = _pinned(reference, found["imageDigest"])
        return None if node.digest(pinned) is None else {**found, "pinned": pinned}

    def names(self, state: Properties) -> set[str]:
        return {state["reference"], state["pinned"]}

    def built(self, spec: Spec, context: Context) -> Path:
        """Build the trainer's image before, where it is what this one starts from.

        Raises:
            RuntimeError: the trainer's files have changed since they were hashed.
        """
        if isinstance(spec, JobImageSpec) and spec.trainer is not None:
            build(TRAINER, context)
            if TRAINER.reference != spec.trainer:
                raise RuntimeError(f"{TRAINER.context} has changed during this run; run it again")
        return build(spec, context)

    def bring_in(self, spec: Spec, archive: Path, node: Node) -> None:
        """Import the archive, and name the image by its digest: an import alone does not."""
        super().bring_in(spec, archive, node)
        digest = node.digest(spec.reference)
        if digest is not None:
            node.tag(spec.reference, _pinned(spec.reference, digest))


def _pinned(reference: str, digest: str) -> str:
    """Return the reference without its tag, which the kubelet's runtime would drop anyway."""
    return f"{reference.rpartition(':')[0]}@{digest}"
