"""A machine that has every tool, for tests of what is rendered from it."""

from pathlib import Path

from clusters.embedded.host import Host
from core.toolchain import Tool


def host(directory: Path) -> Host:
    """Every tool is an empty file in `directory`, of version v1."""

    def tool(name: str) -> Tool:
        path = directory / name
        if not path.exists():
            path.touch()
        return Tool(name, path, "v1", "a test")

    directory.mkdir(exist_ok=True)
    return Host(tool=tool, snapshotter="overlayfs")
