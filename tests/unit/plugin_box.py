"""A plugin with one resource type, `slipway:test:Box`; started as the engine starts a plugin.

python -m tests.unit.plugin_box ENGINE_ADDRESS
"""

from typing import ClassVar

from core.context import Context
from core.handler import Change, Handler, Properties
from core.problem import Problem
from infra.provider.provider import SlipwayProvider
from infra.provider.server import serve

TOKEN = "slipway:test:Box"


class BoxHandler(Handler):
    """A box of some size: none has size 0, and none of size 13 can be made."""

    outputs: ClassVar[tuple[str, ...]] = ("address", "key")
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"key"})
    replaced_by: ClassVar[frozenset[str]] = frozenset({"place"})
    passing_inputs: ClassVar[frozenset[str]] = frozenset({"token"})

    def check(self, inputs: Properties) -> list[Problem]:
        return [Problem("size", "0: at least 1")] if inputs["size"] == 0 else []

    def diff(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        if state["size"] != inputs["size"]:
            context.info(f"it was {state['size']}")
        if "token" in inputs:
            context.info(f"looked with {inputs['token']}")
        return super().diff(state, inputs, context)

    def preview(
        self, state: Properties | None, inputs: Properties, shown: Properties, context: Context
    ) -> Properties:
        if "label" in shown:
            context.info(f"its label: {shown['label']}")
        return super().preview(state, inputs, shown, context)

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        context.status("at work")
        context.status("at work")
        context.info("done")
        if inputs["size"] == 13:
            raise RuntimeError("there is no size 13;\ntake another")
        address = "here" if "token" not in inputs else f"known to {inputs['token']}"
        return "box-1", {"address": address, "key": "k3y"}

    def read(self, state: Properties, context: Context) -> Properties | None:
        return {"address": "there", "key": "k3y"}

    def delete(self, state: Properties, context: Context) -> None:
        if state["size"] == 13:
            raise OSError("it is nailed down")
        context.info(f"removed with {state.get('kubeconfig')}")


if __name__ == "__main__":
    serve(lambda engine: SlipwayProvider({TOKEN: BoxHandler}, engine), "0.1.0")
