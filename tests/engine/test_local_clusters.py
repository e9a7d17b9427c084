"""A cluster's whole life by the tools that are here, and not by recorded ones.

Where no container engine works there is nothing to run it on: then the same life is shown on the
recorded ones alone (local/test_kind.py, local/test_minikube.py).
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from clusters.cli_clusters.cli_cluster import ToolHandler
from clusters.cli_clusters.tool import Tool
from clusters.kind import cluster as kind
from clusters.kind.tool import KindHandler, KindTool
from clusters.kinds import CLUSTERS
from clusters.minikube import cluster as minikube
from clusters.minikube.tool import MinikubeHandler, MinikubeTool
from core import toolchain
from core.handler import Properties
from core.paths import cache_dir
from core.validation import check
from images.build.program import Program, write_archive
from images.targets.target import by_digest, target_of
from tests.local.machine import Listener

T = TypeVar("T")
NAME = f"slipway-test-{os.getpid()}"
KINDS = {
    "kind": (kind, KindHandler(), "cluster"),
    "minikube": (minikube, MinikubeHandler(), "profile"),
}
SAID: dict[str, dict[str, Any]] = {
    "kind": {"workers": 0},
    "minikube": {"driver": "docker", "force": os.geteuid() == 0},
}


def inputs(name: str, *, adopt: bool = False) -> Properties:
    said = {**SAID[name], "adopt": adopt}
    if name == "minikube":
        profile = checked(minikube.MinikubeSettings, said)
        return {**minikube.inputs(profile), "owner": "slipway/test"}
    nodes = checked(kind.KindSettings, said)
    return {"name": NAME, "config": kind.config(nodes), "adopt": adopt, "owner": "slipway/test"}


def checked(shape: type[T], said: dict[str, Any]) -> T:
    settings = check(shape, said, "slipway:cluster", base={"name": NAME})
    assert isinstance(settings, shape), settings
    return settings


def tool(name: str) -> Tool:
    return (
        KindTool({"name": NAME})
        if name == "kind"
        else MinikubeTool({"name": NAME, "driver": "docker"})
    )


HERE = [name for name in KINDS if not tool(name).needs()]
"""The tools that work on this machine."""


@pytest.fixture(params=HERE)
def local(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir().parent))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield request.param
    tool(request.param).delete()


@pytest.mark.long
def test_a_cluster_is_made_healed_given_an_image_and_removed(local: str, tmp_path: Path) -> None:
    """Kind and minikube clusters live, where there is a container engine.

    Elsewhere the real kind runs over a recorded docker.
    """
    _, handler, key = KINDS[local]
    assert isinstance(handler, ToolHandler)
    own, given = Path.home() / ".kube" / "config", inputs(local)
    before = own.read_bytes() if own.exists() else None
    assert handler.check(given) == []
    state = {**given, **handler.create(given, Listener())[1]}
    assert handler.diff(state, given, Listener()) == []

    if isinstance(made := tool(local), KindTool):
        made._engine.run("stop", f"{NAME}-control-plane")
    else:
        subprocess.run(["minikube", "stop", f"--profile={NAME}"], check=True, capture_output=True)
    assert [each.path for each in handler.diff(state, given, Listener())] == ["nodes"]
    assert handler.update(state, given, Listener())["clusterId"] == state["clusterId"]

    program, archive = (
        Program.from_tool(toolchain.tool("tcp-wait"), "/tcp-wait"),
        tmp_path / "image.tar",
    )
    with archive.open("wb") as file:
        write_archive(file, program.reference, program.context, program.entrypoint)
    target = target_of({"kind": local, key: NAME}, CLUSTERS[local].image_targets)
    target.load(archive, program.reference, Listener())
    digest = target.digest(program.reference)
    assert digest is not None
    target.tag(program.reference, by_digest(program.reference, digest))
    assert target.digest(by_digest(program.reference, digest)) == digest

    shutil.rmtree(tool(local).directory)
    adopted = {**given, **handler.create(inputs(local, adopt=True), Listener())[1]}
    handler.delete(adopted, Listener())
    assert tool(local).exists()
    handler.delete(state, Listener())
    assert not tool(local).exists()
    assert (own.read_bytes() if own.exists() else None) == before
