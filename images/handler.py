"""The resource `slipway:images:Image`: an image that a node has, built when nobody has it yet."""

from pathlib import Path
from typing import ClassVar

from images.build import build
from images.containerd import Node, NodeError
from images.datasets import DATASETS
from images.plan import Spec
from images.spec import ImageSpec
from infra.plugin.context import Context
from infra.plugin.handler import Change, Handler, Properties
from infra.plugin.values import UNKNOWN


class ImageHandler(Handler):
    """Its life: what counts is that the node has the image of this content."""

    type: ClassVar[str] = "slipway:images:Image"
    outputs: ClassVar[tuple[str, ...]] = ("reference", "imageDigest")
    decisive: ClassVar[tuple[str, ...]] = ("name", "contentHash", "target")
    """Inputs that count: not where the context lies."""

    def spec(self, inputs: Properties) -> Spec:
        """Return what to build."""
        datasets = {name: DATASETS[name] for name in inputs["datasets"]}
        return ImageSpec(inputs["name"], Path(inputs["context"]), datasets)

    def outputs_on(self, node: Node, reference: str) -> Properties | None:
        """Return the outputs as the node has them, None when it hasn't got the image."""
        digest = node.digest(reference)
        return None if digest is None else {"reference": reference, "imageDigest": digest}

    def names(self, state: Properties) -> set[str]:
        """Return every name that the image has on the node."""
        return {state["reference"]}

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        """A node that can't be asked has not lost anything."""
        changes = [Change(key) for key in self.decisive if state.get(key) != inputs.get(key)]
        if changes:
            return changes
        spec = self.spec(inputs)
        if spec.is_settled and spec.reference != state["reference"]:
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
            unknown["reference"] = spec.reference
        if state is None or any(state.get(key) != inputs.get(key) for key in self.decisive):
            return unknown
        if spec.is_settled and spec.reference != state["reference"]:
            return unknown
        return {key: state.get(key, UNKNOWN) for key in self.outputs}

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        """Build the image unless the node or the cache has it, and import it.

        Raises:
            RuntimeError: the context's files have changed since they were hashed.
        """
        spec, node = self.spec(inputs), Node.of(inputs["target"])
        if spec.content_hash != inputs["contentHash"]:
            raise RuntimeError(f"{spec.context} has changed during this run; run it again")
        spec.settle(context)
        found = self.outputs_on(node, spec.reference)
        if found is None:
            archive = self.built(spec, context)
            context.status(f"importing {spec.reference}")
            self.bring_in(spec, archive, node)
            found = self.outputs_on(node, spec.reference)
        if found is None:
            raise RuntimeError(
                f"{archive} was imported but does not hold {spec.reference}; "
                f"remove it and run `make up` again"
            )
        return spec.reference, found

    def built(self, spec: Spec, context: Context) -> Path:
        """Return the image's archive."""
        return build(spec, context)

    def bring_in(self, spec: Spec, archive: Path, node: Node) -> None:
        """Import the archive."""
        node.load(archive)

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        """Return what the node has, None when it hasn't the image."""
        node = Node.of(state["target"])
        return self.outputs_on(node, state["reference"]) if node.is_up else None

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        """Bring the image of the new content in; names that only the old one had go."""
        _, outputs = self.create(inputs, context)
        same_node = state["target"] == inputs["target"]
        self._remove(state, self.names(state) - (self.names(outputs) if same_node else set()))
        return outputs

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Remove the image from the node."""
        self._remove(state, self.names(state))

    def _remove(self, state: Properties, names: set[str]) -> None:
        """Forget names; a node that is not up is on its way out with its images."""
        node = Node.of(state["target"])
        if node.is_up:
            for name in sorted(names):
                node.remove(name)

    def _found(self, state: Properties) -> Properties | None:
        node = Node.of(state["target"])
        try:
            return self.outputs_on(node, state["reference"]) if node.is_up else state
        except NodeError:
            return state
