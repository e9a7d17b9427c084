"""Which container engine holds the nodes of kind and minikube, and what set-up provides for it."""

from pathlib import Path
from types import ModuleType

import pytest

from clusters import owner
from clusters.cli_clusters import podman
from clusters.cli_clusters.engine import Engine
from clusters.kind import tool as kind
from clusters.kinds import CLUSTERS
from clusters.minikube import tool as minikube
from core.context import Silence
from core.toolchain import ToolMissing
from images.build import engines, kind_node
from images.build.kind_node import KindNode, MinikubeNode
from tests.unit.shell_program import shell_program

_TEAM = {"name": "team"}


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that work, of those known; ours can be had and no registry answers."""
    found: list[str] = []
    down = "it does not work"
    monkeypatch.setattr(Engine, "problem", lambda self: None if self.program in found else down)
    known = {"docker", "podman", "nerdctl"}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(engines, "_working", lambda: "docker" if "docker" in found else None)
    monkeypatch.setattr("shutil.which", lambda name, **_: name if name in known else None)
    monkeypatch.setattr(podman, "is_provided", lambda: True)
    monkeypatch.setattr(podman, "directory", lambda: Path("/ours"))
    monkeypatch.setattr(kind_node, "raised", lambda *_: "no answer")
    return found


def test_kind_uses_the_engine_that_is_chosen_or_works_and_else_our_podman(
    working: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = kind.KindTool({"name": "team"})
    ours = tool._engine
    assert ours.is_ours
    assert ours.variables["KIND_EXPERIMENTAL_PROVIDER"] == "podman"
    assert ours.variables["PATH"].startswith("/ours:")
    working.append("podman")
    assert tool._engine == Engine("podman")
    working.clear()
    monkeypatch.setenv("KIND_EXPERIMENTAL_PROVIDER", "docker")
    assert tool._engine == Engine("docker")
    assert kind.more_tools(_TEAM) == ()


def test_kind_keeps_to_the_engine_that_its_nodes_were_made_with(
    working: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[str] = []
    monkeypatch.setattr(podman, "prepare", lambda: prepared.append("ours"))
    monkeypatch.setattr(kind.KindTool, "run", lambda *_, **__: "")
    monkeypatch.setattr(kind.KindTool, "_not_running", lambda _: ["team-control-plane"])
    monkeypatch.setattr(Engine, "run", lambda *_, **__: "")
    tool = kind.KindTool({"name": "team", "config": {"nodes": [{}]}})
    owner.claim(tool.directory, "slipway/team")
    for works in ("docker", "podman"):
        tool.create("token", Silence())  # first in ours, then in docker
        made = tool._engine
        tool.start(Silence())  # after a reboot, this machine must be prepared anew
        assert len(prepared) == 2
        working[:] = [works]
        assert tool._engine == made
        assert made.is_ours == (works == "docker")
    assert str(tool.engine_problem()).endswith(f"run: rm {tool.directory}/engine")


@pytest.mark.parametrize(
    ("driver", "works", "expected"),
    [
        (None, "docker", ("docker", False)),
        (None, None, ("podman", True)),
        ("podman", None, ("podman", True)),
        ("docker", None, ("docker", False)),  # its problem is reported
        ("kvm2", "docker", None),
    ],
)
def test_minikube_uses_a_podman_of_our_own_where_no_driver_works(
    driver: str | None, works: str | None, expected: tuple[str, bool] | None, working: list[str]
) -> None:
    working += [works] if works else []
    engine = minikube.MinikubeTool({"name": "team", "driver": driver})._engine
    assert (engine and (engine.program, engine.is_ours)) == expected


@pytest.mark.parametrize(("tool", "node"), [(kind, KindNode), (minikube, MinikubeNode)])
def test_set_up_provides_what_this_machine_lacks(
    tool: ModuleType, node: type[KindNode], working: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "is_provided", lambda: False)
    assert tool.more_tools(_TEAM) == (*podman.TOOLS, *engines.TOOLS, *node.TOOLS)
    working.append("docker")
    for other in ({"adopt": True}, {"image": "mine:1"}):
        assert tool.more_tools({**_TEAM, **other}) == ()
    with monkeypatch.context() as users:
        users.setattr("os.geteuid", lambda: 1000)
        assert tool.more_tools(_TEAM) == (), "a base can only be made by root"
    (notes := tool.images("team").tool.directory).mkdir(parents=True)
    assert tool.more_tools(_TEAM) == (), "it exists"
    notes.rmdir()
    monkeypatch.setattr(kind_node, "raised", lambda *_: None)  # its registry answers
    assert tool.more_tools(_TEAM) == ()
    # Otherwise a second set-up would forget what the cluster's nodes are made from.
    monkeypatch.setattr(node, "is_provided", lambda: True)
    assert tool.more_tools(_TEAM) == node.TOOLS
    podman.storage().mkdir(parents=True)
    assert set(podman.TOOLS) <= {*tool.more_tools(_TEAM)}, "its nodes could not be removed"
    working[:] = ["nerdctl"]
    assert set(engines.TOOLS) <= {*tool.more_tools(_TEAM)}, "it builds no images"


def test_without_docker_and_podman_set_up_provides_what_builds_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Unless a stack's images are built already. podman, which knows no field Name, has layers."""
    for variable in ("PATH", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    for each in ("kubeconfig", "aks", "azure-stack"):
        assert CLUSTERS[each].more_tools({}) == ("buildah", "mmdebstrap")
    assert CLUSTERS["kubeconfig"].more_tools({"images": {"trainer": "mine:1"}}) == ()
    with pytest.raises(ToolMissing, match="start docker or podman, or install buildah"):
        engines.choose(tmp_path, tmp_path)
    shell_program(tmp_path / "podman", """case "$*" in *.Name*) exit 125 ;; esac""")
    assert CLUSTERS["aks"].more_tools({}) == ()
    assert engines.choose(tmp_path, tmp_path).keeps_steps
