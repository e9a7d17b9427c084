"""The second half of `make setup`, inside the Python environment: the tools and the state."""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from infra.paths import cache_dir, use_extra
from scripts.setup import extra, plugin, record, report
from scripts.setup.lock import alone
from scripts.setup.problems import SetupFailed
from scripts.setup.provide import provide
from scripts.setup.state import PassphraseLost, prepare
from scripts.setup.tools import tools_of
from scripts.stack.files import StackFileError, cluster_of


def main() -> int:
    """Exits 0 when all the tools of the stack's kind of cluster are there."""
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__)
    parser.add_argument("--stack", default="dev", help="the stack whose tools are needed")
    parser.add_argument(
        "--brief", action="store_true", help="say nothing when everything has been there"
    )
    arguments = parser.parse_args()
    console = Console(stderr=not sys.stdout.isatty(), soft_wrap=True)
    try:
        kind = str(cluster_of(arguments.stack).get("kind"))
        return set_up(kind, console, brief=arguments.brief)
    except (StackFileError, PassphraseLost, TimeoutError, subprocess.SubprocessError) as error:
        console.print(str(error), markup=False)
    except KeyboardInterrupt:
        console.print("Stopped. What is done is kept: `make setup` goes on from there.")
        return 130
    return 1


def set_up(kind: str, console: Console, *, brief: bool) -> int:
    """Makes the state, provides the tools, and prints the closing table.

    Args:
        kind: The stack's kind of cluster.
        console: Where to print.
        brief: Print the table only when a tool has been added or has changed.
    """
    if kind == "embedded" and sys.platform != "linux":
        console.print(report.elsewhere())
        return 1
    started = time.monotonic()
    if kind in extra.AZURE_KINDS:
        extra.add(extra.AZURE, Path(sys.prefix))
        use_extra(extra.AZURE)
    tools = tools_of(kind)
    with alone(cache_dir() / "setup.lock"):
        prepare()
        before = record.load()
        try:
            entries = provide(tools, console, plugin.of_kind(kind))
        except SetupFailed as failure:
            report.show_problems(failure.problems, kind, console)
            return 1
    if brief and not report.news(before, entries):
        return 0
    console.print(report.table(entries))
    for line in report.stand_in_lines(entries):
        console.print(line)
    console.print(f"Everything is there, after {time.monotonic() - started:.1f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
