"""The routes are tried in their order, and all that can't be had is named at once."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from clusters.kinds import CLUSTERS
from core.paths import cache_dir
from core.process import CommandFailed
from images.build import debian
from scripts.setup import apt, golang, record, releases
from scripts.setup import resolve as resolving
from scripts.setup.record import Entries, Entry, Problem, Results
from scripts.setup.steps import Steps
from scripts.setup.tools import MODULES, GoModule, Range, Tool
from tests.unit.shell_program import shell_program

KUBERNETES, COREDNS = MODULES["kubernetes"], MODULES["coredns"]
PULUMI = Tool("pulumi")
CONSOLE = Console(file=io.StringIO())


class Machine:
    """What is on PATH, what apt and Go can provide, and what has been asked of them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.on_path, self.released, self.builds = {"pulumi"}, set[str](), set[str]()
        self.packages: dict[str, str] = {}
        self.apt_obstacle: str | None = None
        self.installed: list[Sequence[str]] = []
        self.built, self.looked_for, self.asked_for = list[str](), list[str](), list[str]()

    def entry(self, origin: str, tool: Tool) -> Entry:
        return Entry.from_file(self.file, "1.0", origin, tool.stamp)

    def find(self, tool: Tool, _found: Entries, origin: str = "on PATH") -> Entry | Problem:
        self.looked_for.append(tool.name)
        problem = Problem(tool.name, "not on PATH", tool.hint)
        return self.entry(origin, tool) if tool.name in self.on_path else problem

    def install(self, packages: Sequence[str], _steps: Steps) -> str | None:
        if self.apt_obstacle is None:
            self.installed.append(packages)
            self.on_path |= {self.packages[name] for name in packages if name in self.packages}
        return self.apt_obstacle

    def fetch(self, tools: Sequence[Tool], _steps: Steps) -> Entries:
        self.asked_for += [tool.name for tool in tools]
        origin = f"{record.RELEASE}example.org"
        return {t.name: self.entry(origin, t) for t in tools if t.name in self.released}

    def build(self, module: GoModule, tools: Sequence[Tool], _steps: Steps) -> Results:
        self.built.append(module.name)
        if module.name in self.builds:
            return {tool.name: self.entry("built", tool) for tool in tools}
        return {each.name: Problem(each.name, "no compiler", "See its log.") for each in tools}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    file = tmp_path / "program"
    file.touch()
    made = Machine(file)
    for module in (resolving, apt):
        monkeypatch.setattr(module, "find", made.find)
    monkeypatch.setattr(apt, "install", made.install)
    monkeypatch.setattr(golang, "build", made.build)
    monkeypatch.setattr(golang, "download", lambda *_arguments: None)
    monkeypatch.setattr(releases, "fetch", made.fetch)
    return made


def resolved(tools: tuple[Tool, ...], *, build: bool = False) -> Entries:
    found, problems = resolving.resolve(tools, CONSOLE, build=build)
    assert problems == []
    return found


def refused(tools: tuple[Tool, ...]) -> list[str]:
    _, problems = resolving.resolve(tools, CONSOLE)
    return [str(each) for each in problems]


def test_path_comes_before_a_package_and_a_package_before_a_build(machine: Machine) -> None:
    """A second set-up looks for nothing and runs nothing."""
    machine.on_path |= {"runc"}
    machine.packages = {"etcd-server": "etcd"}
    machine.builds = {"coredns"}
    runc, etcd = Tool("runc", package="runc"), Tool("etcd", package="etcd-server")
    tools = (PULUMI, runc, etcd, Tool("coredns", module=COREDNS))
    found = resolved(tools)
    machine.looked_for.clear()
    assert resolved(tools) == found
    assert machine.looked_for == []
    origins = {"etcd": "Debian package", "coredns": "built"}
    assert {name: entry.origin for name, entry in found.items()} == {
        **dict.fromkeys(("pulumi", "runc"), "on PATH"), **origins,
    }  # fmt: skip
    assert machine.installed == [["etcd-server"]]
    assert machine.built == ["coredns"]
    assert record.load() == found
    resolved((PULUMI,))
    assert record.load() == found, "another cluster needs it"


def test_a_release_comes_before_a_build_unless_a_build_is_asked_for(machine: Machine) -> None:
    machine.released, machine.builds = {"coredns"}, {"coredns", "kubernetes"}
    tools = (PULUMI, Tool("coredns", module=COREDNS), Tool("kubelet", module=KUBERNETES))
    found = resolved(tools)
    assert found["coredns"].origin == "release of example.org"
    assert found["kubelet"].origin == "built"
    assert machine.asked_for == ["coredns", "kubelet"]
    found = resolved(tools, build=True)
    assert found["coredns"].origin == "built"
    assert machine.built == ["kubernetes", "coredns"]
    # What was built on purpose stays.
    assert resolved(tools) == found
    assert machine.asked_for == ["coredns", "kubelet"]


ENGINE = Tool(
    "engine-files", Range("4", below="6"), unpacked=("engine", "libraries"), hint="Get one."
)


@pytest.mark.parametrize(
    ("version", "problems"),
    [
        ("4.3.1", []),
        ("3.9", ["{directory} is version 3.9; required: 4 or newer, below 6. Get one."]),
        (None, ["engine, libraries can't be unpacked: no apt here. Get one."]),
    ],
)
def test_packages_are_unpacked_into_a_directory_of_their_own_and_not_installed(
    version: str | None, problems: list[str], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = cache_dir() / "engine-files"
    left = directory / "of-an-earlier-set-up"
    left.mkdir(parents=True)

    def unpack(package: str, into: Path) -> None:
        if version is None:
            raise CommandFailed("no apt here")
        shell_program(into / "usr" / "bin" / package, f"echo {package} {version}")

    monkeypatch.setattr(debian, "unpack", unpack)
    found, refused = resolving.resolve((PULUMI, ENGINE), CONSOLE)
    named = [f"engine-files: {each.format(directory=directory)}" for each in problems]
    assert [str(each) for each in refused] == named
    assert machine.installed == []
    assert not left.exists()
    if not problems:
        origin = "unpacked Debian packages"
        assert found[ENGINE.name] == Entry.from_file(directory, "4.3.1", origin, ENGINE.stamp)
        assert (directory / "usr" / "bin" / "libraries").exists()


def test_everything_that_cannot_be_had_is_named_with_what_to_do(machine: Machine) -> None:
    machine.apt_obstacle = "only root can install packages"
    machine.builds = {"coredns"}
    tools = (
        PULUMI,
        Tool("runc", package="runc"),
        Tool("nft", package="nftables"),
        Tool("kubelet", module=KUBERNETES),
        Tool("coredns", module=COREDNS),
        Tool("kind", hint="Install it."),
    )
    assert sorted(refused(tools)) == [
        "kind: not on PATH. Install it.",
        "kubelet: no compiler. See its log.",
        "nft: not on PATH; only root can install packages. As root: apt-get install nftables runc",
        "runc: not on PATH; only root can install packages. As root: apt-get install nftables runc",
    ]
    # A build that fails keeps no other from being made, and what was made is not made again.
    assert sorted(machine.built) == ["coredns", "kubernetes"]
    assert "coredns" in record.load()


def test_tools_that_only_up_needs_are_a_warning_in_previews_and_not_built(
    machine: Machine, console: Console
) -> None:
    minikube = Tool("minikube", module=COREDNS, only_for_up=True, hint="Install it.")
    entries, problems = resolving.resolve((PULUMI, minikube), console, preview=True)
    assert "minikube" not in entries
    assert (problems, machine.built) == ([], [])
    assert "`up` will require minikube: not on PATH. Install it." in console.export_text()


@pytest.mark.parametrize(
    ("kind", "user", "preview", "refused"),
    [
        ("embedded", 1000, False, True),
        ("embedded", 1000, True, False),
        ("embedded", 0, False, False),
        ("kind", 1000, False, False),
    ],
)
def test_only_root_gets_the_embedded_clusters_tools_and_others_are_pointed_to_other_clusters(
    kind: str,
    user: int,
    preview: bool,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    problem = Problem("runc", "not [on] PATH", "Do it.")
    monkeypatch.setattr(resolving, "resolve", lambda *_arguments, **_options: ({}, [problem]))
    monkeypatch.setattr("os.geteuid", lambda: user)
    options = {"brief": True, "build": False, "preview": preview}
    assert resolving.resolve_and_report(CLUSTERS[kind], **options) == 1
    said = "".join(capsys.readouterr())
    assert ("- runc: not [on] PATH. Do it." in said) is not refused
    for other in ("kind", "minikube"):
        assert (f"make up STACK={other}" in said) is refused


def test_the_table_says_where_each_tool_came_from_and_until_when_kubernetes_is_supported(
    machine: Machine, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(machine.entry("built", PULUMI), version="v1.33.1")
    found = {"kubelet": own, "kubectl": own, "pulumi": machine.entry("on PATH", PULUMI)}
    monkeypatch.setattr(resolving, "resolve", lambda *_arguments, **_options: (found, []))
    monkeypatch.setattr(resolving, "Console", lambda **_options: console)
    assert resolving.resolve_and_report(None, brief=True, build=False, preview=False) == 0
    said = console.export_text()
    assert f"on PATH: {machine.file}" in said
    assert "SOURCE=build" in said
    rows = [line.split() for line in said.splitlines() if " v1.33.1 " in line]
    assert {row[1]: row[5] for row in rows if row[0] == "│"} == dict.fromkeys(
        ("kubectl", "kubelet"), "2026-06-28"
    )
    assert said.count("support for Kubernetes v1.33.1 ended on 2026-06-28") == 1
    # Each checkout has an environment of its own.
    record.save({name: replace(each, path="/elsewhere") for name, each in found.items()})
    assert resolving.resolve_and_report(None, brief=True, build=False, preview=False) == 0
    assert console.export_text() == "", "no tool is news"
