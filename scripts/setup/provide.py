"""Gets every tool, by the first route that has it: PATH, a Debian package, its Go module."""

from rich.console import Console
from rich.text import Text

from scripts.setup import apt, golang, plugin, record
from scripts.setup.lookup import find
from scripts.setup.modules import GoModule
from scripts.setup.plugin import Plugin
from scripts.setup.problems import Problem, SetupFailed
from scripts.setup.record import Entries, Entry
from scripts.setup.steps import StepFailed
from scripts.setup.tools import Tool


def provide(
    tools: tuple[Tool, ...],
    console: Console,
    plugins: tuple[Plugin, ...] = (plugin.KUBERNETES,),
) -> Entries:
    """Finds, installs or builds the tools, and records each as soon as it is there.

    Args:
        tools: What is wanted; one that lies beside another comes after it.
        console: Where progress goes.
        plugins: Pulumi's own that are wanted.

    Returns:
        An entry for each tool that there is, and for each plugin. What only `up`
        needs may be missing; then that has been said.

    Raises:
        SetupFailed: some can't be had; it names them all. The others are recorded all the same.
    """
    provision = Provision(tools, console)
    provision.look("on PATH")
    provision.install()
    provision.build()
    for each in plugins:
        provision.add_plugin(each)
    needed = [tool.name for tool in provision.missing() if not tool.only_for_up]
    for problem in provision.put_off():
        console.print(Text(f"`up` will need {problem}"))
    if needed or any(each.name not in provision.found for each in plugins):
        raise SetupFailed(list(provision.problems.values()))
    return provision.found


class Provision:
    """What has been found so far, and for each tool that hasn't, the last reason."""

    def __init__(self, tools: tuple[Tool, ...], console: Console) -> None:
        self.tools = tools
        self.console = console
        self.recorded = record.load()
        self.found = record.still_good(self.recorded, tools)
        self.problems: dict[str, Problem] = {}

    def missing(self) -> list[Tool]:
        """The tools that are still to be had."""
        return [tool for tool in self.tools if tool.name not in self.found]

    def put_off(self) -> list[Problem]:
        """What is wrong with those that are missing and that a preview goes without."""
        names = [tool.name for tool in self.missing() if tool.only_for_up]
        return [self.problems.pop(name) for name in names]

    def look(self, origin: str) -> None:
        """Takes what is on this machine already."""
        for tool in self.missing():
            result = find(tool, self.found, origin)
            if isinstance(result, Entry):
                self._add({tool.name: result})
            else:
                self._refuse(Problem(tool.name, result, tool.hint))

    def install(self) -> None:
        """Installs the Debian packages of what is missing."""
        packaged = [tool for tool in self.missing() if tool.package is not None]
        packages = sorted({tool.package for tool in packaged if tool.package is not None})
        if not packages:
            return
        obstacle = apt.obstacle()
        if obstacle is None:
            try:
                apt.install(packages, self.console)
            except StepFailed as failure:
                obstacle = str(failure)
        if obstacle is None:
            self.look("Debian package")
            return
        remedy = f"As root: apt-get install {' '.join(packages)}"
        for tool in packaged:
            self._refuse(Problem(tool.name, f"{self.problems[tool.name].why}; {obstacle}", remedy))

    def build(self) -> None:
        """Builds what is missing and has a Go module. One that fails doesn't keep the others."""
        wanted: dict[str, tuple[GoModule, list[Tool]]] = {}
        for tool in self.missing():
            if tool.module is not None:
                wanted.setdefault(tool.module.name, (tool.module, []))[1].append(tool)
        for module, tools in wanted.values():
            made = golang.build(module, tools, self.console)
            if isinstance(made, list):
                for problem in made:
                    self._refuse(problem)
            else:
                self._add(made)

    def add_plugin(self, wanted: Plugin) -> None:
        """Adds a plugin, which the CLI itself can fetch."""
        pulumi = self.found.get("pulumi")
        if pulumi is None:
            why = "its download needs pulumi, which is missing"
            self._refuse(Problem(wanted.name, why, "Mend that first."))
            return
        result = plugin.provide(wanted, self.recorded.get(wanted.name), pulumi, self.console)
        if isinstance(result, Entry):
            self._add({wanted.name: result})
        else:
            self._refuse(result)

    def _add(self, entries: Entries) -> None:
        self.found |= entries
        for name in entries:
            self.problems.pop(name, None)
        record.save({**self.recorded, **self.found})

    def _refuse(self, problem: Problem) -> None:
        self.problems[problem.tool] = problem
