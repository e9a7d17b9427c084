"""The life of an image where a cluster has it: what counts is its content."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from core.context import Context
from core.handler import Change, Handler, Properties
from core.values import UNKNOWN
from images.plan import Content
from images.targets.target import Target, TargetError, name_in, target_of

C = TypeVar("C", bound=Content)


class ImageLife(Handler, Generic[C]):
    """An image that is made here unless its target has it, and brought in.

    Outputs: `reference`, what a pod calls it; `imageDigest`; and `built`, what it is
    called where it is built.
    """

    outputs: ClassVar[tuple[str, ...]] = ("reference", "imageDigest", "built")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "target")
    """Inputs that count: not where the context lies."""

    @abstractmethod
    def spec(self, inputs: Properties) -> C:
        """Return what to make."""

    @abstractmethod
    def built(self, spec: C, context: Context) -> Path:
        """Return the image's archive, after making it unless it is there."""

    def outputs_on(self, target: Target, reference: str) -> Properties | None:
        """Return the outputs as the target has them, None when it hasn't got the image."""
        name = target.name(reference)
        digest = target.digest(name)
        if digest is None:
            return None
        return {"reference": name, "imageDigest": digest, "built": reference}

    def names(self, state: Properties) -> set[str]:
        """Return every name that the image has at its target."""
        return {state["reference"]}

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """A target that can't be asked has not lost anything."""
        changes = [Change(key) for key in self.decisive if state.get(key) != inputs.get(key)]
        if changes:
            return changes
        spec = self.spec(inputs)
        if spec.is_settled and spec.reference != _built(state):
            # The same was asked for, but another data set is at hand now.
            return [Change("reference", drift=True)]
        found = self._found(state)
        if found is None:
            return [Change("imageDigest", drift=True)]
        return [Change(key, drift=True) for key in self.outputs if found[key] != state.get(key)]

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        """The reference follows from the content, so that a preview shows the new one."""
        unknown: Properties = dict.fromkeys(self.outputs, UNKNOWN)
        if any(inputs.get(key) is UNKNOWN for key in self.decisive if key != "target"):
            return unknown
        spec = self.spec(inputs)
        if spec.is_settled:
            unknown["reference"] = name_in(inputs["target"], spec.reference)
            unknown["built"] = spec.reference
        if state is None or any(state.get(key) != inputs.get(key) for key in self.decisive):
            return unknown
        if spec.is_settled and spec.reference != _built(state):
            return unknown
        return {key: state.get(key, UNKNOWN) for key in self.outputs}

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Make the image unless the target or the cache has it, and bring it in.

        Raises:
            RuntimeError: what it is made of has changed since it was hashed.
            images.targets.TargetError: the target refuses it.
        """
        spec, target = self.spec(inputs), target_of(inputs["target"])
        if spec.content_hash != inputs["contentHash"]:
            raise RuntimeError(f"{spec.context} has changed during this run; run it again")
        spec.settle(context)
        found = self.outputs_on(target, spec.reference)
        if found is None:
            archive = self.built(spec, context)
            context.status(f"bringing in {spec.reference}")
            self.bring_in(spec, archive, target, context)
            found = self.outputs_on(target, spec.reference)
        if found is None:
            raise RuntimeError(
                f"{archive} was brought in but {target.name(spec.reference)} is not there; "
                f"remove the file and run `make up` again"
            )
        return spec.reference, found

    def bring_in(self, spec: C, archive: Path, target: Target, context: Context) -> None:
        """Bring the archive in."""
        target.load(archive, spec.reference, context)

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """Return what the target has, None when it hasn't the image."""
        target = target_of(state["target"])
        return self.outputs_on(target, _built(state)) if target.is_up else None

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring the image of the new content in; names that only the old one had go."""
        _, outputs = self.create(inputs, context)
        same_target = state["target"] == inputs["target"]
        self._remove(state, self.names(state) - (self.names(outputs) if same_target else set()))
        return outputs

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Remove the image from the target."""
        self._remove(state, self.names(state))

    def _remove(self, state: Properties, names: set[str]) -> None:
        """Forget names; a target that is not up is on its way out with its images."""
        target = target_of(state["target"])
        if target.is_up:
            for name in sorted(names):
                target.remove(name)

    def _found(self, state: Properties) -> Properties | None:
        target = target_of(state["target"])
        try:
            return self.outputs_on(target, _built(state)) if target.is_up else state
        except TargetError:
            return state


def _built(state: Mapping[str, Any]) -> str:
    # A state from before there were registries has one name for both.
    return str(state.get("built", state["reference"]))
