"""`slipway:clusters:Kind`: a cluster of kind's as a resource of the local provider."""

from pathlib import Path
from typing import ClassVar

from clusters.local import kind_config, tools
from clusters.local.handler import LocalHandler
from clusters.local.kind_tool import KindTool
from clusters.local.marks import Mark
from core.handler import CheckFailure, Properties


class KindHandler(LocalHandler):
    """Inputs: `name`, `adopt`, and `config`, kind's own configuration."""

    type: ClassVar[str] = "slipway:clusters:Kind"
    program: ClassVar[str] = "kind"

    @property
    def shape(self) -> set[str]:
        return {"config"}

    def check(self, inputs: Properties) -> list[CheckFailure]:
        """Let kind itself look at its configuration, which needs no container engine."""
        if tools.missing("kind") is not None:
            return []  # the preview says so, and `create` refuses
        reason = kind_config.problem(tools.find("kind"), inputs["name"], inputs["config"])
        return [] if reason is None else [CheckFailure("config", f"kind refuses it: {reason}")]

    def tool(self, inputs: Properties) -> KindTool:
        return KindTool(inputs["name"], inputs["config"])


def remove(directory: Path) -> None:
    """Remove the cluster of that mark. Raises `RuntimeError` or `ToolMissing` when it can't be."""
    KindTool(directory.name).delete()
    Mark("kind", directory.name).clear()
