"""What is left of a local cluster that Slipway has made."""

from collections.abc import Mapping

from clusters.local.marks import Mark
from clusters.local.protocol import Tool


def remains(tool: Tool, mark: Mark, removal: str) -> Mapping[str, list[str]]:
    """Return the cluster, with how to remove it; nothing of one that somebody else has made.

    Args:
        tool: Bound to the cluster.
        mark: The note about it.
        removal: The tool's command that removes it.
    """
    left = []
    if mark.is_there:
        # Without the tool, or its engine, nobody can tell whether the cluster is there.
        is_gone = not tool.needs() and not tool.exists()
        command = f"rm -r {mark.directory}" if is_gone else f"{removal} && rm -r {mark.directory}"
        left.append(f"{mark.tool}'s cluster {mark.name}: {command}")
    return {f"{mark.tool} clusters": left}
