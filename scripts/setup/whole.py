"""A set-up that has something to do or to tell: it provides the tools and prints the table."""

import sys
import time

from rich.console import Console

from clusters.cluster import Kind
from scripts.setup import plugin, record, report
from scripts.setup.problems import SetupFailed
from scripts.setup.provide import provide
from scripts.setup.tools import tools_of


def provide_and_tell(kind: Kind | None, *, brief: bool, build: bool) -> int:
    """Return set-up's exit status.

    Args:
        kind: The stack's kind of cluster; None where its settings name none that there is.
        brief: Print the table only when a tool has been added or has changed.
        build: Build what could be downloaded, too.
    """
    console = Console(stderr=not sys.stdout.isatty(), soft_wrap=True)
    if kind is not None and kind.runs_on_host and sys.platform != "linux":
        console.print(report.elsewhere())
        return 1
    started = time.monotonic()
    before = record.load()
    try:
        entries = provide(tools_of(kind), console, plugin.of_kind(kind), build=build)
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
