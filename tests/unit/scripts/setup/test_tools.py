"""The wrapper modules say what they pin, and every tool has a way to be had."""

import re
from pathlib import Path

import pytest

from clusters.kinds import CLUSTERS
from core.paths import CHECKOUT
from core.toolchain import numbers
from scripts.setup import tools
from scripts.setup.tools import GoModule, Tool

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


def test_every_wrapper_module_is_used() -> None:
    directories = {path.name for path in tools.WRAPPERS.iterdir() if path.is_dir()}
    assert directories == {module.name for module in MODULES if module.packages}


@pytest.mark.parametrize("package", ["pulumi-kubernetes", "pulumi-azure-native"])
def test_a_plugin_has_the_version_of_its_sdk(package: str) -> None:
    project = (CHECKOUT / "pyproject.toml").read_text()
    assert f'"{package}=={tools.MODULES[package].version.removeprefix("v")}"' in project


def test_all_parts_of_kubernetes_have_one_version() -> None:
    pinned = (KUBERNETES.directory / "go.mod").read_text()
    parts = dict(re.findall(r"^\t(k8s\.io/\S+) (v0\.\d+\.\d+)(?: .*)?$", pinned, re.MULTILINE))
    assert len(parts) > 20
    assert set(parts.values()) == {f"v0.{KUBERNETES.version.removeprefix('v1.')}"}


@pytest.mark.parametrize(
    ("needed", "versions"),
    [("k8s.io/client-go", 3), ("golang.org/x/net", 1), ("google.golang.org/protobuf", 1)],
)
def test_what_several_tools_are_built_from_is_compiled_once(needed: str, versions: int) -> None:
    """Go's cache keeps it, by its version: a quarter of what set-up on a new machine compiles.

    Pulumi's plugin needs an older client than Kubernetes', CoreDNS and the operator one between.
    """
    found = set()
    for name in (
        *("kubernetes", "coredns", "training-operator"),
        *("pulumi", "pulumi-kubernetes", "pulumi-language-python"),
    ):
        pinned = (tools.MODULES[name].directory / "go.mod").read_text()
        found |= set(re.findall(rf"^\t{re.escape(needed)} (\S+)", pinned, re.MULTILINE))
    assert 0 < len(found) <= versions


def test_the_linker_flags_have_the_version_of_go_mod() -> None:
    flags = KUBERNETES.ldflags
    assert flags.startswith("-s -w ")
    assert f".gitVersion={KUBERNETES.version} " in flags
    assert ".gitMajor=1 " in flags
    assert ".gitMinor=37 " in flags


def test_a_changed_source_has_a_new_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "WRAPPERS", tmp_path)
    (tmp_path / "pause").mkdir()
    source = tmp_path / "pause" / "main.go"
    source.write_text("package main")
    # Anew each time, since both are kept once they are computed.
    first = GoModule("pause", {"pause": "."}, "1 s")
    assert GoModule("pause", {"pause": "."}, "1 s").digest == first.digest
    assert first.digest.startswith(first.version)
    source.write_text("package main // changed")
    second = GoModule("pause", {"pause": "."}, "1 s")
    assert second.digest != first.digest
    assert second.version != first.version
    assert GoModule("pause", {"pause": "."}, "1 s", copies={"a": "b"}).digest != second.digest


def test_another_pin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "WRAPPERS", tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "go.mod").write_text("module x\n\nrequire example.com/other v1.0.0\n")
    with pytest.raises(ValueError, match=r"does not require example\.com/this"):
        _ = GoModule("x", {}, "1 s", requires="example.com/this").version


@pytest.mark.parametrize("tool", tools.tools_of(CLUSTERS["embedded"]), ids=lambda tool: tool.name)
def test_a_tool_of_the_embedded_cluster_can_be_installed_or_built(tool: Tool) -> None:
    assert (tool.package is None) != (tool.module is None)
    if tool.module is not None:
        assert tool.name in {**tool.module.packages, **tool.module.copies}


@pytest.mark.parametrize("kind", ["kind", "minikube"])
def test_a_container_cluster_needs_few_tools(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"clusters.{kind}.tool.more_tools", tuple)
    assert [tool.name for tool in tools.tools_of(CLUSTERS[kind])] == [
        *("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "kubectl"),
        *("training-operator-manifests", "training-operator", "tcp-wait"),
        *("pulumi-resource-kubernetes", kind),
    ]


def test_a_kind_that_names_none_or_is_not_known_gets_the_common_tools() -> None:
    assert tools.tools_of(CLUSTERS["kubeconfig"]) == tools.tools_of(None) == tools.EVERYWHERE
