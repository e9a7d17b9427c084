"""What set-up says at its end: one table of the tools, or what keeps it from going on."""

import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clusters.cluster import Kind
from core.paths import cache_dir
from scripts.setup import plugin
from scripts.setup.problems import Problem
from scripts.setup.record import Entries, Entry

_LEGEND = (
    "Looked for in this order: on PATH and new enough, Debian package, the project's own release, "
    "with the\nchecksum that its publisher serves, build from the Go module that go.sum pins. "
    "SOURCE=build leaves releases out."
)


def table(entries: Entries) -> Table:
    """Tool, version, and where it came from."""
    result = Table(title="Tools", caption=_LEGEND, caption_justify="left")
    result.add_column("tool", no_wrap=True)
    result.add_column("version", no_wrap=True)
    result.add_column("where it came from")
    for name in sorted(entries):
        entry = entries[name]
        result.add_row(name, entry.version, _where(entry))
    return result


def news(before: Entries, after: Entries) -> bool:
    """Whether a tool has been added or has another version or origin."""

    def told(entries: Entries) -> set[tuple[str, str, str]]:
        return {(name, entry.version, entry.origin) for name, entry in entries.items()}

    return not told(after) <= told(before)


def _where(entry: Entry) -> str:
    """What set-up made lies in the cache; for what it found, where that is."""
    if plugin.is_stand_in(entry):
        return "stand-in: scripts/offline"
    if Path(entry.path).is_relative_to(cache_dir()):
        return entry.origin
    return f"{entry.origin}: {entry.path}"


def stand_in_lines(entries: Entries) -> list[str]:
    """The plain sentence that is due for each plugin that is stood in for."""
    return [
        each.line
        for each in (plugin.KUBERNETES, plugin.AZURE)
        if each.name in entries and plugin.is_stand_in(entries[each.name])
    ]


def show_problems(problems: list[Problem], kind: Kind | None, console: Console) -> None:
    """Names every tool that can't be had, each with what to do."""
    console.print(f"[red]{len(problems)} of the tools can't be had:[/red]")
    for problem in problems:
        console.print(Text(f"- {problem}"))
    is_host_fit = sys.platform == "linux" and os.geteuid() == 0
    if kind is not None and kind.runs_on_host and not is_host_fit:
        console.print(elsewhere())


def elsewhere() -> str:
    """Where to go when this machine can't hold the embedded cluster."""
    return (
        "The embedded cluster needs Linux and root. Without them use a cluster in docker, podman "
        "or a virtual machine: `make up STACK=kind` or `make up STACK=minikube`, which need only "
        "pulumi, python, kubectl and kind or minikube."
    )
