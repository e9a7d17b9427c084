"""The `slipway:images:…` resources: images in a cluster, identified by their content."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from core.context import Context
from core.handler import UNKNOWN, Change, Handler, Lazy, Properties
from core.problem import Problem
from images.build import uses
from images.build.job import JobImageSpec
from images.build.program import Program
from images.build.spec import Spec
from images.build.trainer import ImageSpec
from images.targets.target import PROBLEMS, TARGETS, Target, by_digest, name_in, target_of


class ImageResource(Handler):
    """Handler for an image, which is built and transferred unless its target already has it.

    Inputs: those of the image's `Spec`, and `target`, a map that describes the target. Outputs:
    `reference`, which pods use; `imageDigest`; and `built`, the local reference.
    """

    outputs: ClassVar[tuple[str, ...]] = ("reference", "imageDigest", "built")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "target")
    """Inputs that require a new image when they change; the build context's path is not one."""
    spec: Callable[[Properties], Spec]
    """Returns the image's specification for a resource's inputs: `ImageSpec.from_inputs`."""

    def __init__(self, targets: Mapping[str, Lazy] = TARGETS) -> None:
        self._targets = targets

    def outputs_on(self, target: Target, reference: str) -> Properties | None:
        """Return the outputs as read from the target, or None if the target lacks the image."""
        name = target.name(reference)
        if (digest := target.digest(name)) is None:
            return None
        return {"reference": name, "imageDigest": digest, "built": reference}

    def names(self, state: Properties) -> set[str]:
        """Return all names under which the image is on its target."""
        return {state[key] for key in self.outputs if key in {"reference", "pinned"}}

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        """Return the changes; an image on an unresponsive target counts as unchanged."""
        if changed := self._changed(state, inputs):
            return [Change(key) for key in changed]
        if _is_outdated(state, self.spec(inputs)):
            return [Change("reference", drift=True)]
        target = self._target(state)
        outputs: Properties | None = state
        with suppress(*PROBLEMS):
            outputs = self.outputs_on(target, state["built"]) if target.is_up else state
        if outputs is None:
            return [Change("imageDigest", drift=True)]
        return [Change(key, drift=True) for key in self.outputs if outputs[key] != state.get(key)]

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """Return the outputs, with `UNKNOWN` in place of those that only the build determines."""
        if state is None or state.get("contentHash") != inputs["contentHash"]:
            self.announce(inputs, context)
        unknown: Properties = dict.fromkeys(self.outputs, UNKNOWN)
        if any(inputs.get(key) is UNKNOWN for key in self.decisive if key != "target"):
            return unknown
        spec = self.spec(inputs)
        if spec.is_settled:
            unknown["reference"] = name_in(inputs["target"], spec.reference)
            unknown["built"] = spec.reference
        if state is None or self._changed(state, inputs) or _is_outdated(state, spec):
            return unknown
        return {key: state.get(key, UNKNOWN) for key in self.outputs}

    def announce(self, inputs: Properties, context: Context) -> None:
        """During a preview, report what an image with new content is built from."""

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Build the image unless it is cached, and transfer it to its target.

        Does neither if the target already has the image. Raises the same exceptions as
        `Spec.build`, or one of `PROBLEMS`.
        """
        spec, target = self.spec(inputs), self._target(inputs)
        if spec.content_hash != inputs["contentHash"]:
            raise RuntimeError(
                f"{spec.context} changed during this run; run the same command again"
            )
        spec.settle(context)
        archives = spec.archives
        before = uses.note(archives, context.urn)  # so that no build removes them
        if (outputs := self.outputs_on(target, spec.reference)) is None:
            try:
                archive = spec.build(context)
            except BaseException:  # otherwise, what the build starts from would be kept for ever
                uses.drop(context.urn, but=before)
                raise
            context.status(f"importing {spec.reference}")
            self.bring_in(archive, spec.reference, target, context)
            if (outputs := self.outputs_on(target, spec.reference)) is None:
                raise RuntimeError(
                    f"{archive} was imported, but the target has no image "
                    f"{target.name(spec.reference)}; remove the archive, then run "
                    "the same command again"
                )
        uses.drop(context.urn, but=archives)
        return spec.reference, outputs

    def bring_in(self, archive: Path, name: str, target: Target, context: Context) -> None:
        target.load(archive, name, context)

    def read(self, state: Properties, context: Context) -> Properties | None:
        """Return the outputs as read from the target, or None if the target lacks the image."""
        target = self._target(state)
        return self.outputs_on(target, state["built"]) if target.is_up else None

    def update(self, state: Properties, inputs: Properties, context: Context) -> Properties:
        """Transfer the new image, and remove the names that only the old image has."""
        _, outputs = self.create(inputs, context)
        stays = self.names(outputs) if state["target"] == inputs["target"] else set()
        self._remove(state, self.names(state) - stays)
        return outputs

    def delete(self, state: Properties, context: Context) -> None:
        """Remove the image from the target, and record that this resource no longer uses it."""
        self._remove(state, self.names(state))
        uses.drop(context.urn)

    def _changed(self, state: Properties, inputs: Properties) -> list[str]:
        return [key for key in self.decisive if state.get(key) != inputs.get(key)]

    def _target(self, properties: Properties) -> Target:
        return target_of(properties["target"], self._targets)

    def _remove(self, state: Properties, names: set[str]) -> None:
        """Remove names from the target, unless the target is down and is itself being deleted."""
        target = self._target(state)
        if target.is_up:
            for name in sorted(names):
                target.remove(name)


class ImageHandler(ImageResource):
    """Handler for an image built from this checkout."""

    spec = ImageSpec.from_inputs

    def announce(self, inputs: Properties, context: Context) -> None:
        """Report the time and disk space that the build will take, if one is needed."""
        spec = ImageSpec.from_inputs(inputs)
        if not (spec.is_settled and spec.archive.exists()):
            context.info(f"is built from {spec.context / spec.dockerfile}: {spec.expected}")


class JobImageHandler(ImageResource):
    """Handler for a job's own image, which pods refer to by its digest."""

    spec = staticmethod(JobImageSpec.from_inputs)
    outputs: ClassVar[tuple[str, ...]] = (*ImageResource.outputs, "pinned")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "trainer", "target")

    def check(self, inputs: Properties) -> list[Problem]:
        """Return problems with the build context, before anything is created."""
        problems = JobImageSpec.from_inputs(inputs).problems()
        return [Problem(key, reason) for key, reason in problems.items()]

    def announce(self, inputs: Properties, context: Context) -> None:
        """Report what an image with new content is built from, and the time and space it takes."""
        spec = JobImageSpec.from_inputs(inputs)
        is_built = inputs.get("trainer") is not UNKNOWN and spec.archive.exists()
        takes = "already in the cache" if is_built else spec.expected
        context.info(f"is built from {spec.origin}: {takes}")

    def outputs_on(self, target: Target, reference: str) -> Properties | None:
        """Return the outputs as read from the target, or None if the target lacks the image.

        Also returns None if the image is not tagged with its digest.
        """
        if (outputs := super().outputs_on(target, reference)) is None:
            return None
        pinned = by_digest(outputs["reference"], outputs["imageDigest"])
        return None if target.digest(pinned) is None else {**outputs, "pinned": pinned}

    def bring_in(self, archive: Path, name: str, target: Target, context: Context) -> None:
        """Transfer the image, and tag it with its digest, since importing it does not."""
        super().bring_in(archive, name, target, context)
        name = target.name(name)
        if (digest := target.digest(name)) is not None:
            target.tag(name, by_digest(name, digest))


class ProgramHandler(ImageResource):
    """Handler for an image that contains a single program from the toolchain."""

    spec = Program.from_inputs

    def bring_in(self, archive: Path, name: str, target: Target, context: Context) -> None:
        """Transfer the archive and delete it, as nothing else uses it."""
        try:
            super().bring_in(archive, name, target, context)
        finally:
            archive.unlink()


def _is_outdated(state: Properties, spec: Spec) -> bool:
    """Return whether an image with the same inputs would now contain a different data set."""
    return bool(spec.is_settled and spec.reference != state["built"])
