"""Which local clusters are Slipway's own: what it has begun to make it notes before.

So a cluster that an interrupted run has left is taken away or gone on with, and one that another
program made by the same name is never touched unless `adopt` is set.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters import owner
from clusters.local.tool import Tool
from core.paths import state_dir


@dataclass(frozen=True)
class Mark:
    """The note about one cluster.

    Args:
        tool: `kind` or `minikube`.
        name: As that tool knows it.
    """

    tool: str
    name: str

    @property
    def directory(self) -> Path:
        """Its directory, with nothing else in it."""
        return state_dir() / "local-clusters" / self.tool / self.name

    @property
    def is_there(self) -> bool:
        """Whether Slipway has made the cluster, or has begun to."""
        return self.directory.exists()

    @property
    def others(self) -> bool:
        """Whether Slipway has other clusters of that tool on this machine."""
        return any(each != self.directory for each in self.directory.parent.glob("*"))

    def require(self, stack: str | None) -> None:
        """Raise `NotOurs` where another stack has made the cluster."""
        owner.require(self.directory, stack)

    def holds(self, inputs: Mapping[str, Any]) -> bool:
        """Whether it was made with these."""
        try:
            return bool(json.loads(self._file.read_text()) == inputs)
        except (OSError, ValueError):
            return False

    def leave(self, inputs: Mapping[str, Any]) -> None:
        """Note that the cluster is being made, and by which stack.

        Raises:
            NotOurs: another one has.
        """
        owner.claim(self.directory, inputs["owner"])
        self._file.write_text(json.dumps(inputs))

    def clear(self) -> None:
        """Forget the cluster."""
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _file(self) -> Path:
        return self.directory / "inputs.json"


def remains(tool: Tool, mark: Mark, removal: str) -> Mapping[str, list[str]]:
    """Return the cluster, with how to remove it; nothing of one that the stack has not made.

    Args:
        tool: Bound to the cluster.
        mark: The note about it.
        removal: The tool's command that removes it.
    """
    left = []
    if mark.is_there:
        # Without the tool, or its engine, it is unknown whether the cluster exists.
        is_gone = not tool.needs() and not tool.exists()
        command = f"rm -r {mark.directory}" if is_gone else f"{removal} && rm -r {mark.directory}"
        left.append(f"{mark.tool}'s cluster {mark.name}: {command}")
    return {f"{mark.tool} clusters": left}
