"""Every tool has a way to be had; Go modules are pinned, and built into the cache."""

import io
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from core.toolchain import numbers
from scripts.setup import golang, tools
from scripts.setup.record import Entry, Problem
from scripts.setup.steps import StepFailed, Steps
from scripts.setup.tools import GoModule, Tool
from tests.unit.shell_program import shell_program

MODULES = tools.MODULES.values()
KUBERNETES = tools.MODULES["kubernetes"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_a_module_of_others_is_pinned_with_its_checksums(module: GoModule) -> None:
    assert module.version
    if module.packages:
        assert numbers(module.go_version) >= (1, 23)
    if module.requires is not None:
        sums = (module.directory / "go.sum").read_text()
        pinned = r"v4\.0\.0-\S+" if module.tag else re.escape(module.version)
        assert re.search(rf"^{re.escape(module.requires)} {pinned} h1:", sums, re.MULTILINE)


@pytest.mark.parametrize("package", ["pulumi-kubernetes", "pulumi-azure-native"])
def test_a_plugin_has_the_version_of_its_sdk(package: str) -> None:
    project = (CHECKOUT / "pyproject.toml").read_text()
    assert f'"{package}=={tools.MODULES[package].version.removeprefix("v")}"' in project


def test_all_parts_of_kubernetes_have_one_version() -> None:
    parts = _kubernetes_parts("kubernetes")
    assert len(parts) > 20
    assert set(parts.values()) == {f"v0.{KUBERNETES.version.removeprefix('v1.')}"}
    assert f".gitVersion={KUBERNETES.version} " in KUBERNETES.ldflags


@pytest.mark.parametrize("name", ["pulumi-kubernetes", "training-operator", "coredns"])
def test_others_use_that_version_so_that_a_new_machine_compiles_it_once(name: str) -> None:
    parts = _kubernetes_parts(name)
    assert "k8s.io/client-go" in parts
    assert set(parts.values()) == set(_kubernetes_parts("kubernetes").values())


def _kubernetes_parts(name: str) -> dict[str, str]:
    pinned = (tools.MODULES[name].directory / "go.mod").read_text()
    return dict(re.findall(r"^\t(k8s\.io/\S+) (v0\.\d+\.\d+)(?: .*)?$", pinned, re.MULTILINE))


def test_a_changed_source_has_a_new_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "WRAPPERS", tmp_path)

    def made(text: str, **fields: Any) -> GoModule:
        (tmp_path / "pause").mkdir(exist_ok=True)
        (tmp_path / "pause" / "main.go").write_text(text)
        return GoModule("pause", {"pause": "."}, "1 s", **fields)

    first = made("package main").digest
    assert made("package main").digest == first
    assert made("package main").version == first[:8]
    assert made("package main", copies={"a": "b"}).digest != first
    assert made("package main // changed").digest != first


@pytest.mark.parametrize("tool", tools.tools_of(CLUSTERS["embedded"]), ids=lambda tool: tool.name)
def test_a_tool_of_the_embedded_cluster_can_be_installed_or_built(tool: Tool) -> None:
    assert (tool.package is None) != (tool.module is None)
    if tool.module is not None:
        assert tool.name in {**tool.module.packages, **tool.module.copies}


STEPS = Steps(Console(file=io.StringIO()))


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wrapper module `hello` that builds, with Go's own cache, which is not Slipway's."""
    for variable in ("GOCACHE", "GOMODCACHE"):
        asked = subprocess.run(["go", "env", variable], capture_output=True, text=True, check=True)
        monkeypatch.setenv(variable, asked.stdout.strip())
    monkeypatch.setattr(tools, "WRAPPERS", tmp_path)
    directory = tmp_path / "hello"
    directory.mkdir()
    (directory / "go.mod").write_text("module hello\n\ngo 1.21\n")
    (directory / "main.go").write_text('package main\n\nfunc main() { println("hello") }\n')
    return directory


def hello(package: str = ".") -> tuple[GoModule, Tool]:
    module = GoModule("hello", {"greeter": package}, "1 s")
    return module, Tool("greeter", module=module)


@pytest.mark.parametrize("package", [".", "hello/v3"])
def test_a_tool_is_built_into_the_cache_and_runs(package: str, wrapper: Path, cache: Path) -> None:
    """Whatever its major version, which is no part of its name."""
    if package != ".":
        (wrapper / "go.mod").write_text(f"module {package}\n\ngo 1.21\n")
    module, tool = hello(package)
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


def test_what_goes_into_images_is_built_for_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS, "run", asked := Mock(side_effect=StepFailed("stopped")))
    for name, system in (("tcp-wait", "linux"), ("crictl", None)):
        golang.build(tools.MODULES[name], [Tool(name)], STEPS)
        assert asked.call_args.kwargs["variables"].get("GOOS") == system


def test_an_old_or_missing_go_is_named_with_a_remedy(
    wrapper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (wrapper / "go.mod").write_text("module hello\n\ngo 1.25.11\n")
    go = shell_program(tmp_path / "go", "echo go1.19.8")
    module, tool = hello()
    for found, why in ((str(go), f"{go} is go1.19.8"), (None, "there is no `go` on PATH")):
        monkeypatch.setattr(golang, "_go", lambda found=found: found)
        (problem,) = golang.build(module, [tool], STEPS).values()
        reason = f"greeter: building it requires Go 1.25.11 or newer, but {why}. Install a newer Go"
        assert str(problem).startswith(reason)
    shell_program(go, "echo go1.21.0")
    assert golang._unfit(str(go), module) is None


def test_a_file_and_a_directory_are_copied_out_of_gos_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "module"
    (source / "manifests" / "base").mkdir(parents=True)
    for file in ("manifests/base/crd.yaml", "script"):
        (source / file).write_text("kind: X\n")
    for path in (*source.rglob("*"), source):
        path.chmod(0o555 if path.is_dir() else 0o444)  # as Go keeps them
    monkeypatch.setattr(golang, "_run", lambda *_, **__: json.dumps({"Dir": str(source)}))
    monkeypatch.setattr(GoModule, "version", "v1.0.0")
    module = GoModule("x", {}, "1 s", copies={"files": "manifests", "script": "script"})
    for _ in range(2):  # a second time over what is there
        directory = golang._copy("go", module, "files")
        assert directory == cache / "x-v1.0.0"
        assert (directory / "base" / "crd.yaml").read_text() == "kind: X\n"
        assert os.access(golang._copy("go", module, "script"), os.X_OK)
        assert (directory / "base").stat().st_mode & 0o200


def test_a_failed_download_is_the_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = shell_program(tmp_path / "go", f"echo $PWD $@ >> {tmp_path}/asked\nexit 1")
    monkeypatch.setattr(golang, "_go", lambda: str(go))
    golang.download(tools.MODULES["kind"], STEPS)
    asked = (tmp_path / "asked").read_text()
    assert asked == f"{tools.MODULES['kind'].directory} mod download\n"


@pytest.mark.parametrize(
    ("free", "spare"), [("20000000 kB", True), ("9000000 kB", False), (None, False)]
)
def test_builds_take_memory_only_where_it_is_to_spare(
    free: str | None, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = FileNotFoundError if free is None else None
    read = Mock(return_value=f"MemAvailable:   {free}\n", side_effect=error)
    golang._roomy.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_text", read)
        changed.delenv("GOGC", raising=False)
        assert ("GOGC" in golang._variables()) == spare
    golang._roomy.cache_clear()
