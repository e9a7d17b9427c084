"""What `make down` calls: python -m clusters.local delete --directory DIRECTORY.

The directory is a mark (see `marks`): its name is the cluster's, its parent's is the tool's.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from clusters.local.kind_tool import KindTool
from clusters.local.marks import Mark
from clusters.local.minikube_tool import MinikubeTool
from clusters.local.protocol import Tool
from core.toolchain import ToolMissing

_TOOLS: Mapping[str, Callable[[str], Tool]] = {"kind": KindTool, "minikube": MinikubeTool}


def main() -> None:
    """Remove the cluster that a mark stands for, and the mark; nothing else is touched."""
    parser = argparse.ArgumentParser(prog="python -m clusters.local", description=__doc__)
    parser.add_argument("action", choices=["delete"])
    parser.add_argument("--directory", type=Path, required=True)
    directory = parser.parse_args().directory.resolve()
    mark = Mark(directory.parent.name, directory.name)
    if mark.directory != directory or not mark.is_there:
        sys.exit(f"{directory} is no note of a cluster that Slipway has made")
    try:
        _TOOLS[mark.tool](mark.name).delete()
    except (RuntimeError, ToolMissing) as error:
        sys.exit(str(error))
    mark.clear()


if __name__ == "__main__":
    main()
