"""Resolves every tool by the first source that has it: PATH, a package, a release, a build.

Independent steps run in parallel: packages, downloads, and two builds at a time.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from rich.console import Console
from rich.text import Text

from scripts.setup import apt, golang, plugin, record, releases
from scripts.setup.definitions import GoModule, Tool
from scripts.setup.lookup import find
from scripts.setup.plugin import Plugin
from scripts.setup.record import Entries, Entry, Problem, Results
from scripts.setup.steps import StepFailed, Steps
from scripts.setup.tools import PULUMI


def resolve(
    tools: tuple[Tool, ...],
    console: Console,
    plugins: tuple[Plugin, ...] = (plugin.KUBERNETES,),
    *,
    build: bool = False,
) -> tuple[Entries, list[Problem]]:
    """Find, install or build the tools, and record each as soon as it is available.

    Args:
        tools: What is needed; one that lies beside another comes after it.
        console: Where progress goes.
        plugins: Pulumi's own that are needed.
        build: Build what could be downloaded, too.

    Returns:
        An entry for each available tool and plugin, and a problem for each that can't be
        provided. What only `up` needs is printed instead.
    """
    with Steps(console) as steps:
        resolver = _Resolver(tools, steps, build=build)
        resolver.look(resolver.missing(), "on PATH")
        resolver.get(plugins)
    for tool in resolver.missing():
        if tool.only_for_up:
            console.print(Text(f"`up` will need {resolver.problems.pop(tool.name)}"))
    return resolver.found, list(resolver.problems.values())


class _Resolver:
    """What has been found so far, and for each tool that hasn't, the last reason."""

    def __init__(self, tools: tuple[Tool, ...], steps: Steps, *, build: bool) -> None:
        self.tools = tools
        self.steps = steps
        self.build_only = build
        self.recorded = record.load()
        self.found = record.unchanged(self.recorded, tools, build=build)
        self.problems: dict[str, Problem] = {}
        self._changing = threading.Lock()

    def missing(self) -> list[Tool]:
        """Return the tools that have not been found yet."""
        return [tool for tool in self.tools if tool.name not in self.found]

    def look(self, tools: Sequence[Tool], origin: str) -> None:
        """Take what is on this machine already."""
        for tool in tools:
            found = find(tool, self.found, origin)
            result = Problem(tool.name, found, tool.hint) if isinstance(found, str) else found
            self._note({tool.name: result})

    def get(self, plugins: Sequence[Plugin]) -> None:
        """Get what is missing. No tool has both a Debian package and a Go module."""
        packaged = [tool for tool in self.missing() if tool.package is not None]
        made = [tool for tool in self.missing() if tool.module is not None]
        lanes = [ThreadPoolExecutor(size) for size in (1, 1, golang.at_once())]
        try:
            packages, downloads, compilers = lanes
            running = {"": packages.submit(self._install, packaged)}
            if made and not self.build_only:
                self._note(releases.fetch(made, self.steps))
            by_module: dict[str, tuple[GoModule, list[Tool]]] = {}
            for tool in made:
                if tool.module is not None and tool.name not in self.found:
                    by_module.setdefault(tool.module.name, (tool.module, []))[1].append(tool)
            for module, tools in by_module.values():
                fetched = downloads.submit(golang.download, module, self.steps)
                running[module.name] = compilers.submit(self._build, module, tools, fetched)
            if PULUMI.name in running:
                running[PULUMI.name].result()
            for each in plugins:
                self._add_plugin(each)
            for future in running.values():
                future.result()
        finally:
            for lane in lanes:
                lane.shutdown(wait=False, cancel_futures=True)

    def _install(self, packaged: Sequence[Tool]) -> None:
        """Install Debian packages, all by one command."""
        packages = sorted({tool.package for tool in packaged if tool.package is not None})
        if not packages:
            return
        obstacle = apt.obstacle()
        if obstacle is None:
            try:
                apt.install(packages, self.steps)
            except StepFailed as failure:
                obstacle = str(failure)
        if obstacle is None:
            self.look(packaged, "Debian package")
            return
        remedy = f"As root: apt-get install {' '.join(packages)}"
        for tool in packaged:
            why = f"{self.problems[tool.name].why}; {obstacle}"
            self._note({tool.name: Problem(tool.name, why, remedy)})

    def _build(self, module: GoModule, tools: Sequence[Tool], fetched: "Future[None]") -> None:
        """Build once the module is downloaded. A build that fails doesn't keep the others."""
        fetched.result()
        self._note(golang.build(module, tools, self.steps))

    def _add_plugin(self, needed: Plugin) -> None:
        """Add a plugin, which the CLI installs."""
        pulumi = self.found.get("pulumi")
        if pulumi is None:
            why = "its download needs pulumi, which is missing"
            result: Entry | Problem = Problem(needed.name, why, "Fix that first.")
        else:
            result = plugin.provide(needed, self.recorded.get(needed.name), pulumi, self.steps)
        self._note({needed.name: result})

    def _note(self, results: Results) -> None:
        """Record the tools that were found, and keep why others were not."""
        with self._changing:
            for name, result in results.items():
                if isinstance(result, Problem):
                    self.problems[name] = result
                else:
                    self.found[name] = result
                    self.problems.pop(name, None)
            record.save({**self.recorded, **self.found})
