"""Gets every tool, by the first route that has it: PATH, a Debian package, a release, a build.

What does not need each other goes on side by side: packages, downloads, and two builds at a time.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from rich.console import Console
from rich.text import Text

from scripts.setup import apt, golang, plugin, record, releases
from scripts.setup.lookup import find
from scripts.setup.modules import PULUMI, GoModule
from scripts.setup.plugin import Plugin
from scripts.setup.problems import Problem, SetupFailed
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import StepFailed, Steps
from scripts.setup.tools import Tool


def provide(
    tools: tuple[Tool, ...],
    console: Console,
    plugins: tuple[Plugin, ...] = (plugin.KUBERNETES,),
    *,
    build: bool = False,
) -> Entries:
    """Finds, installs or builds the tools, and records each as soon as it is there.

    Args:
        tools: What is wanted; one that lies beside another comes after it.
        console: Where progress goes.
        plugins: Pulumi's own that are wanted.
        build: Build what could be downloaded, too.

    Returns:
        An entry for each tool that there is, and for each plugin. What only `up`
        needs may be missing; then that has been said.

    Raises:
        SetupFailed: some can't be had; it names them all. The others are recorded all the same.
    """
    with Steps(console) as steps:
        provision = Provision(tools, steps, build=build)
        provision.look(provision.missing(), "on PATH")
        provision.get(plugins)
    needed = [tool.name for tool in provision.missing() if not tool.only_for_up]
    for problem in provision.put_off():
        console.print(Text(f"`up` will need {problem}"))
    if needed or any(each.name not in provision.found for each in plugins):
        raise SetupFailed(list(provision.problems.values()))
    return provision.found


class Provision:
    """What has been found so far, and for each tool that hasn't, the last reason."""

    def __init__(self, tools: tuple[Tool, ...], steps: Steps, *, build: bool) -> None:
        self.tools = tools
        self.steps = steps
        self.releases = not build
        self.recorded = record.load()
        self.found = record.still_good(self.recorded, tools, build=build)
        self.problems: dict[str, Problem] = {}
        self._changing = threading.Lock()

    def missing(self) -> list[Tool]:
        """The tools that are still to be had."""
        return [tool for tool in self.tools if tool.name not in self.found]

    def put_off(self) -> list[Problem]:
        """What is wrong with those that are missing and that a preview goes without."""
        names = [tool.name for tool in self.missing() if tool.only_for_up]
        return [self.problems.pop(name) for name in names]

    def look(self, tools: Sequence[Tool], origin: str) -> None:
        """Takes what is on this machine already."""
        for tool in tools:
            result = find(tool, self.found, origin)
            if isinstance(result, Entry):
                self._add({tool.name: result})
            else:
                self._refuse(Problem(tool.name, result, tool.hint))

    def get(self, plugins: Sequence[Plugin]) -> None:
        """Gets what is missing. No tool has both a Debian package and a Go module."""
        packaged = [tool for tool in self.missing() if tool.package is not None]
        made = [tool for tool in self.missing() if tool.module is not None]
        lanes = [ThreadPoolExecutor(size) for size in (1, 1, golang.at_once())]
        try:
            packages, downloads, compilers = lanes
            going_on = {"": packages.submit(self.install, packaged)}
            if made and self.releases:
                self._add(releases.fetch(releases.downloads(made), self.steps))
            for module, tools in _by_module([tool for tool in made if tool.name not in self.found]):
                fetched = downloads.submit(golang.download, module, self.steps)
                going_on[module.name] = compilers.submit(self._build, module, tools, fetched)
            if PULUMI.name in going_on:
                going_on[PULUMI.name].result()
            for each in plugins:
                self.add_plugin(each)
            for future in going_on.values():
                future.result()
        finally:
            for lane in lanes:
                lane.shutdown(wait=False, cancel_futures=True)

    def install(self, packaged: Sequence[Tool]) -> None:
        """Installs Debian packages."""
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
            self._refuse(Problem(tool.name, f"{self.problems[tool.name].why}; {obstacle}", remedy))

    def _build(self, module: GoModule, tools: Sequence[Tool], fetched: "Future[None]") -> None:
        """Builds once the module is there. A build that fails doesn't keep the others."""
        fetched.result()
        made = golang.build(module, tools, self.steps)
        if isinstance(made, list):
            for problem in made:
                self._refuse(problem)
        else:
            self._add(made)

    def add_plugin(self, wanted: Plugin) -> None:
        """Adds a plugin, which the CLI installs."""
        pulumi = self.found.get("pulumi")
        if pulumi is None:
            why = "its download needs pulumi, which is missing"
            self._refuse(Problem(wanted.name, why, "Mend that first."))
            return
        result = plugin.provide(wanted, self.recorded.get(wanted.name), pulumi, self.steps)
        if isinstance(result, Entry):
            self._add({wanted.name: result})
        else:
            self._refuse(result)

    def _add(self, entries: Entries) -> None:
        with self._changing:
            self.found |= entries
            for name in entries:
                self.problems.pop(name, None)
            record.save({**self.recorded, **self.found})

    def _refuse(self, problem: Problem) -> None:
        with self._changing:
            self.problems[problem.tool] = problem


def _by_module(tools: Sequence[Tool]) -> list[tuple[GoModule, list[Tool]]]:
    """Return what to build, in the tools' order."""
    found: dict[str, tuple[GoModule, list[Tool]]] = {}
    for tool in tools:
        if tool.module is not None:
            found.setdefault(tool.module.name, (tool.module, []))[1].append(tool)
    return list(found.values())
