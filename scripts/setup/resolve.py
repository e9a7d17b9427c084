"""Provide each tool from the first source that has it: PATH, a package, a release or a build."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from clusters import support
from clusters.cluster import Kind
from core.paths import cache_dir
from core.wording import as_typed
from scripts.setup import apt, golang, record, releases
from scripts.setup.lookup import find
from scripts.setup.record import Entries, Problem, Results
from scripts.setup.steps import Steps
from scripts.setup.tools import GoModule, Tool, tools_of

_LEGEND = (
    "Sources, in this order: PATH, if new enough; a Debian package; the project's release, "
    "verified with the\npublisher's checksum; a build from the Go module pinned in go.sum. "
    "SOURCE=build skips releases."
)
_ELSEWHERE = (
    "The embedded cluster requires Linux and root. Otherwise, use a cluster in docker, podman "
    "or a virtual machine: `make up STACK=kind` or `make up STACK=minikube`, which need only "
    "pulumi, python, kubectl and kind or minikube."
)


def resolve_and_report(kind: Kind | None, *, brief: bool, build: bool, preview: bool) -> int:
    """Resolve the tools, print the table or the problems, and return the exit status for setup.

    `kind` is None if the stack's cluster kind is unknown. With `brief`, the table is printed only
    if a tool has changed.
    """
    console = Console(stderr=not sys.stdout.isatty(), soft_wrap=True)
    may_run = sys.platform == "linux" and (preview or os.geteuid() == 0)
    if kind is not None and kind.runs_on_host and not may_run:
        console.print(as_typed(_ELSEWHERE))
        return 1
    started, before = time.monotonic(), record.load()
    entries, problems = resolve(tools_of(kind), console, build=build, preview=preview)
    if problems:
        console.print(f"[red]{len(problems)} tools can't be provided:[/red]")
        for problem in problems:
            console.print(Text(as_typed(f"- {problem}")))
        return 1
    shown = {(name, each.version, each.origin) for name, each in before.items()}
    if brief and all((name, each.version, each.origin) in shown for name, each in entries.items()):
        return 0
    console.print(table(entries))
    versions = {entry.version for name, entry in entries.items() if name.startswith("kube")}
    for text in filter(None, map(support.warning, sorted(versions))):
        console.print(f"[yellow]{text}[/yellow]")
    console.print(f"All tools are ready after {time.monotonic() - started:.1f} s.")
    return 0


def table(entries: Entries) -> Table:
    """Return a table of the tools: version, end of support (if from Kubernetes) and origin."""
    columns = [Column(name, no_wrap=True) for name in ("tool", "version", "supported until")]
    columns.append(Column("source"))
    result = Table(*columns, title="Tools", caption=_LEGEND, caption_justify="left")
    for name, entry in sorted(entries.items()):
        origin = entry.origin
        if not Path(entry.path).is_relative_to(cache_dir()):
            origin = f"{origin}: {entry.path}"
        until = support.end(entry.version) if name.startswith("kube") else None
        result.add_row(name, entry.version, str(until or "-"), origin)
    return result


def resolve(
    tools: tuple[Tool, ...], console: Console, *, build: bool = False, preview: bool = False
) -> tuple[Entries, list[Problem]]:
    """Find, install, download or build the tools, and record each; `build` skips downloads.

    Returns the tools that are ready and the problems with the others. If a tool is needed only by
    `up`, its problem is printed instead of returned and, with `preview`, it is not built.
    """
    with Steps(console) as steps:
        resolver = _Resolver(tools, steps, build=build)
        for tool in resolver.missing():
            resolver.note({tool.name: find(tool, resolver.ready)})
        resolver.get(build=build, preview=preview)
    for tool in resolver.missing():
        if tool.only_for_up:
            console.print(Text(f"`up` will require {resolver.problems.pop(tool.name)}"))
    return resolver.ready, list(resolver.problems.values())


class _Resolver:
    """The tools that are ready so far, and the latest problem with each of the others."""

    def __init__(self, tools: tuple[Tool, ...], steps: Steps, *, build: bool) -> None:
        self.tools = tools
        self.steps = steps
        self.recorded = record.load()
        self.ready = record.unchanged(self.recorded, tools, build=build)
        self.problems: dict[str, Problem] = {}
        self._changing, self._compiling = threading.Lock(), threading.Lock()

    def missing(self) -> list[Tool]:
        """Return the tools that are not ready yet."""
        return [tool for tool in self.tools if tool.name not in self.ready]

    def get(self, *, build: bool, preview: bool) -> None:
        """Provide the missing tools. No tool has both a Debian package and a Go module."""
        packaged = [tool for tool in self.missing() if tool.package is not None or tool.unpacked]
        pool = ThreadPoolExecutor(4)  # one module is built while others are downloaded
        try:
            running = [pool.submit(lambda: self.note(apt.provide(packaged, self.steps)))]
            released = [t for t in self.missing() if t.module is None or not build]
            self.note(releases.fetch(released, self.steps))
            missing = [each for each in self.missing() if not (preview and each.only_for_up)]
            for module in dict.fromkeys(each.module for each in missing if each.module is not None):
                tools = [each for each in missing if each.module is module]
                running.append(pool.submit(self._build, module, tools))
            for future in running:
                future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _build(self, module: GoModule, tools: Sequence[Tool]) -> None:
        """Download a module and build its tools; a failure does not stop other builds."""
        golang.download(module, self.steps)
        # Builds share packages. Two at once would compile them twice.
        with self._compiling:
            results = golang.build(module, tools, self.steps)
        self.note(results)

    def note(self, results: Results) -> None:
        """Record the tools that are ready, and keep the problems with the others."""
        with self._changing:
            for name, result in results.items():
                if isinstance(result, Problem):
                    self.problems[name] = result
                else:
                    self.ready[name] = result
                    self.problems.pop(name, None)
            record.save({**self.recorded, **self.ready})
