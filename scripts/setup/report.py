"""What set-up prints at its end: one table of the tools, or what keeps it from going on."""

import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clusters.cluster import Kind
from core.paths import cache_dir
from scripts.setup import plugin, record
from scripts.setup.record import Entries, Entry, Problem
from scripts.setup.resolve import resolve
from scripts.setup.tools import tools_of

_LEGEND = (
    "Looked for in this order: on PATH and new enough, Debian package, the project's own release, "
    "with the\nchecksum that its publisher serves, build from the Go module that go.sum pins. "
    "SOURCE=build leaves releases out."
)
_ELSEWHERE = (
    "The embedded cluster needs Linux and root. Without them use a cluster in docker, podman "
    "or a virtual machine: `make up STACK=kind` or `make up STACK=minikube`, which need only "
    "pulumi, python, kubectl and kind or minikube."
)


def resolve_and_report(kind: Kind | None, *, brief: bool, build: bool) -> int:
    """Resolve the tools, print the table or the problems, and return set-up's exit status.

    Args:
        kind: The stack's kind of cluster; None where its settings name no known kind.
        brief: Print the table only when a tool has been added or has changed.
        build: Build what could be downloaded, too.
    """
    console = Console(stderr=not sys.stdout.isatty(), soft_wrap=True)
    if kind is not None and kind.runs_on_host and sys.platform != "linux":
        console.print(_ELSEWHERE)
        return 1
    started = time.monotonic()
    before = record.load()
    entries, problems = resolve(tools_of(kind), console, plugin.of_kind(kind), build=build)
    if problems:
        show_problems(problems, kind, console)
        return 1
    if brief and not changed(before, entries):
        return 0
    console.print(table(entries))
    for line in stand_in_lines(entries):
        console.print(line)
    console.print(f"All tools are ready, after {time.monotonic() - started:.1f} s.")
    return 0


def table(entries: Entries) -> Table:
    """Return tool, version, and where it came from."""
    result = Table(title="Tools", caption=_LEGEND, caption_justify="left")
    result.add_column("tool", no_wrap=True)
    result.add_column("version", no_wrap=True)
    result.add_column("where it came from")
    for name in sorted(entries):
        result.add_row(name, entries[name].version, _origin(entries[name]))
    return result


def changed(before: Entries, after: Entries) -> bool:
    """Return whether a tool has been added or has another version or origin."""

    def shown(entries: Entries) -> set[tuple[str, str, str]]:
        return {(name, entry.version, entry.origin) for name, entry in entries.items()}

    return not shown(after) <= shown(before)


def stand_in_lines(entries: Entries) -> list[str]:
    """Return the sentence that is due for each plugin whose stand-in is used."""
    return [
        each.line
        for each in (plugin.KUBERNETES, plugin.AZURE)
        if each.name in entries and plugin.is_stand_in(entries[each.name])
    ]


def show_problems(problems: list[Problem], kind: Kind | None, console: Console) -> None:
    """Name every tool that can't be provided, each with what to do."""
    console.print(f"[red]{len(problems)} of the tools can't be provided:[/red]")
    for problem in problems:
        console.print(Text(f"- {problem}"))
    fits = sys.platform == "linux" and os.geteuid() == 0
    if kind is not None and kind.runs_on_host and not fits:
        console.print(_ELSEWHERE)


def _origin(entry: Entry) -> str:
    """What set-up made lies in the cache; for what it found, where that is."""
    if plugin.is_stand_in(entry):
        return "stand-in: scripts/offline"
    if Path(entry.path).is_relative_to(cache_dir()):
        return entry.origin
    return f"{entry.origin}: {entry.path}"
