"""The second half of `make setup`, inside the Python environment: the tools and the state."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from clusters import CLUSTERS
from clusters.cluster import Kind
from core.paths import cache_dir, use_extra
from scripts.cli.config import StackFileError, cluster_of
from scripts.setup import extra, plugin, record
from scripts.setup.state import PassphraseLost, prepare
from scripts.setup.tools import tools_of


def main() -> int:
    """Exits 0 when all the tools of the stack's kind of cluster are there."""
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__)
    parser.add_argument("--stack", default="dev", help="the stack whose tools are needed")
    parser.add_argument(
        "--brief", action="store_true", help="say nothing when everything has been there"
    )
    arguments = parser.parse_args()
    source = os.environ.get("SOURCE") or "release"
    if source not in {"release", "build"}:
        print(f"SOURCE={source} is not allowed; it takes: build, release.", file=sys.stderr)
        return 1
    try:
        kind = CLUSTERS.get(str(cluster_of(arguments.stack).get("kind")))
        return set_up(kind, brief=arguments.brief, build=source == "build")
    except (StackFileError, PassphraseLost, TimeoutError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped. What is done is kept: `make setup` goes on from there.", file=sys.stderr)
        return 130
    return 1


def set_up(kind: Kind | None, *, brief: bool, build: bool) -> int:
    """Makes the state, provides the tools, and prints the closing table.

    Args:
        kind: The stack's kind of cluster; None where its settings name none that there is.
        brief: Print the table only when a tool has been added or has changed.
        build: Build what could be downloaded, too.
    """
    needed = None if kind is None else kind.extra
    if needed is not None:
        extra.add(needed, Path(sys.prefix))
        use_extra(needed)
    tools, plugins = tools_of(kind), plugin.of_kind(kind)
    with extra.alone(cache_dir() / "setup.lock"):
        prepare()
        recorded = record.load()
        there = record.still_good(recorded, tools, build=build)
        settled = all(plugin.settled(each, recorded.get(each.name)) for each in plugins)
        if brief and settled and len(there) == len(tools):
            return 0
        # Loaded only now: it takes longer than all of the above.
        from scripts.setup.whole import provide_and_tell  # noqa: PLC0415

        return provide_and_tell(kind, brief=brief, build=build)


if __name__ == "__main__":
    sys.exit(main())
