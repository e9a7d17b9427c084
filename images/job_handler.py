"""The resource `slipway:images:JobImage`: a job's own image, which pods call by its digest."""

from pathlib import Path
from typing import ClassVar

from core.context import Context
from core.handler import CheckFailure, Properties
from images.build import build
from images.job import JobImageSpec
from images.life import ImageLife
from images.spec import trainer_of
from images.targets.target import Target


class JobImageHandler(ImageLife[JobImageSpec]):
    """Its life: what counts is that the target has the image of this content, by its digest."""

    type: ClassVar[str] = "slipway:images:JobImage"
    outputs: ClassVar[tuple[str, ...]] = (*ImageLife.outputs, "pinned")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "trainer", "target")

    def check(self, inputs: Properties) -> list[CheckFailure]:
        """Refuse a context that can't be built from, before anything is made."""
        problems = self.spec(inputs).problems()
        return [CheckFailure(key, reason) for key, reason in problems.items()]

    def spec(self, inputs: Properties) -> JobImageSpec:
        return JobImageSpec(
            inputs["name"], Path(inputs["context"]), inputs["dockerfile"], inputs.get("trainer")
        )

    def outputs_on(self, target: Target, reference: str) -> Properties | None:
        """The target has to know the image by its digest, too."""
        found = super().outputs_on(target, reference)
        if found is None:
            return None
        pinned = target.pinned(found["reference"], found["imageDigest"])
        return None if target.digest(pinned) is None else {**found, "pinned": pinned}

    def names(self, state: Properties) -> set[str]:
        return {state["reference"], state["pinned"]}

    def built(self, spec: JobImageSpec, context: Context) -> Path:
        """Build the trainer's image before, where it is what this one starts from.

        Raises:
            RuntimeError: the trainer's files have changed since they were hashed.
        """
        trainer = None if spec.trainer is None else trainer_of(spec.trainer)
        if trainer is not None:
            build(trainer, context)
            if trainer.reference != spec.trainer:
                raise RuntimeError(f"{trainer.context} has changed during this run; run it again")
        return build(spec, context)

    def bring_in(self, spec: JobImageSpec, archive: Path, target: Target, context: Context) -> None:
        """Bring the archive in, and name the image by its digest: an import alone does not."""
        super().bring_in(spec, archive, target, context)
        name = target.name(spec.reference)
        digest = target.digest(name)
        if digest is not None and (pinned := target.pinned(name, digest)) != name:
            target.tag(name, pinned)
