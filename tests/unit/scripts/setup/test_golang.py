"""A Go module is built by a Go that can build it, into the cache; a failure names its log."""

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from scripts.setup import golang, tools
from scripts.setup.record import Entry, Problem
from scripts.setup.steps import Steps
from scripts.setup.tools import MODULES, GoModule, Tool
from tests.unit.shell_program import shell_program

STEPS = Steps(Console(file=io.StringIO()))


@pytest.fixture(autouse=True)
def _go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Go keep its own cache, which does not depend on Slipway's."""
    for variable in ("GOCACHE", "GOMODCACHE"):
        asked = subprocess.run(["go", "env", variable], capture_output=True, text=True, check=True)
        monkeypatch.setenv(variable, asked.stdout.strip())


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wrapper module `hello` that builds."""
    monkeypatch.setattr(tools, "WRAPPERS", tmp_path)
    directory = tmp_path / "hello"
    directory.mkdir()
    (directory / "go.mod").write_text("module hello\n\ngo 1.21\n")
    (directory / "main.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    return directory


def hello() -> tuple[GoModule, Tool]:
    module = GoModule("hello", {"greeter": "."}, "1 s")
    return module, Tool("greeter", module=module)


@pytest.mark.parametrize("package", [".", "hello/v3"])
def test_a_tool_is_built_into_the_cache_and_runs(package: str, wrapper: Path, cache: Path) -> None:
    """Whatever its major version, which is no part of its name."""
    if package != ".":
        (wrapper / "go.mod").write_text(f"module {package}\n\ngo 1.21\n")
    module = GoModule("hello", {"greeter": package}, "1 s")
    tool = Tool("greeter", module=module)
    made = golang.build(module, [tool], STEPS)
    path = cache / "bin" / "greeter"
    origin = "built from its Go module"
    assert made == {"greeter": Entry.from_file(path, module.version, origin, tool.stamp)}
    assert subprocess.run([path], capture_output=True, check=True).stderr == b"hello\n"
    assert list((cache / "build").iterdir()) == []


def test_a_build_that_fails_is_a_problem_of_each_of_its_tools(wrapper: Path, cache: Path) -> None:
    (wrapper / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    module, tool = hello()
    (problem,) = golang.build(module, [tool], STEPS).values()
    assert isinstance(problem, Problem)
    assert problem.tool == "greeter"
    assert "undefined: undefined" in problem.why
    assert str(cache / "logs" / "build-hello.log") in problem.why


@pytest.mark.parametrize(
    ("free", "cores", "builds", "collects"),
    [(20, 2, 2, False), (11, 2, 1, True), (20, 1, 1, False), (None, 4, 1, True)],
)
def test_builds_take_memory_and_cores_only_where_they_are_to_spare(
    free: int | None, cores: int, builds: int, collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_file: Path) -> str:
        if free is None:
            raise FileNotFoundError
        return f"MemTotal: 99 kB\nMemAvailable:   {free * 2**20} kB\n"

    golang._roomy.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_text", read)
        changed.setattr("os.cpu_count", lambda: cores)
        changed.delenv("GOGC", raising=False)
        assert golang.at_once() == builds
        assert golang._variables().get("GOGC") == (None if collects else "off")
    golang._roomy.cache_clear()


def test_a_failed_download_is_the_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = shell_program(tmp_path / "go", f"echo $PWD $@ >> {tmp_path}/asked\nexit 1")
    monkeypatch.setattr(golang, "_go", lambda: str(go))
    golang.download(MODULES["kind"], STEPS)
    assert (tmp_path / "asked").read_text() == f"{MODULES['kind'].directory} mod download\n"


@pytest.mark.parametrize(
    ("version", "fits"), [("go1.26.8", True), ("go1.21.0", True), ("go1.19.8", False)]
)
def test_an_old_go_is_named(version: str, fits: bool, wrapper: Path, tmp_path: Path) -> None:
    (wrapper / "go.mod").write_text("module hello\n\ngo 1.25.11\n")
    go = shell_program(tmp_path / "go", f"echo {version}")
    why = f"building it requires Go 1.25.11 or newer, but {go} is {version}"
    assert golang._unfit(str(go), hello()[0]) == (None if fits else why)


@pytest.mark.usefixtures("wrapper")
def test_missing_go_is_reported_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golang, "_go", lambda: None)
    module, tool = hello()
    (problem,) = golang.build(module, [tool], STEPS).values()
    assert isinstance(problem, Problem)
    assert "there is no `go` on PATH" in problem.why
    assert "Install" in problem.remedy


def test_a_file_and_a_directory_are_copied_out_of_gos_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "module"
    (source / "manifests" / "base").mkdir(parents=True)
    (source / "manifests" / "base" / "crd.yaml").write_text("kind: X\n")
    (source / "script").write_text("#!/bin/sh\n")
    for path in (*source.rglob("*"), source):
        path.chmod(0o555 if path.is_dir() else 0o444)  # as Go keeps them
    answer = json.dumps({"Dir": str(source)})
    monkeypatch.setattr(golang, "_run", lambda *_arguments, **_options: answer)
    module = GoModule("x", {}, "1 s", copies={"files": "manifests", "script": "script"})
    monkeypatch.setattr(GoModule, "version", "v1.0.0")
    for _ in range(2):  # a second time over what is there
        directory = golang._copy("go", module, "files")
        assert directory == cache / "x-v1.0.0"
        assert (directory / "base" / "crd.yaml").read_text() == "kind: X\n"
        assert os.access(golang._copy("go", module, "script"), os.X_OK)
        assert (directory / "base").stat().st_mode & 0o200
