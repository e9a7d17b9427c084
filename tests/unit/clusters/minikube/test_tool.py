"""Which engine holds minikube's nodes, and what set-up provides for it."""

import pytest

from clusters.cli_clusters import podman
from clusters.cli_clusters.engine import Engine
from clusters.minikube import tool
from clusters.minikube.tool import MinikubeTool
from images.build import kind_node
from images.build.kind_node import MinikubeNode

OURS = Engine("podman", "/ours")


@pytest.mark.parametrize(
    ("driver", "working", "expected"),
    [
        (None, "docker", Engine("docker")),
        (None, None, OURS),
        ("podman", None, OURS),
        ("podman", "podman", Engine("podman")),
        ("docker", None, Engine("docker")),  # its problem is reported
        ("kvm2", "docker", None),
    ],
)
def test_a_podman_of_our_own_is_used_where_no_driver_works(
    driver: str | None,
    working: str | None,
    expected: Engine | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_down = "it does not work"
    monkeypatch.setattr(
        Engine, "problem", lambda self: None if self.program == working else is_down
    )
    monkeypatch.setattr(podman, "is_provided", lambda: True)
    monkeypatch.setattr(podman, "engine", lambda: OURS)
    assert MinikubeTool({"name": "team", "driver": driver})._engine == expected


@pytest.mark.parametrize(
    ("works", "reachable", "built", "needed"),
    [
        (True, True, False, ()),
        (False, True, False, podman.TOOLS),
        (True, False, False, MinikubeNode.TOOLS),
        (False, False, False, (*podman.TOOLS, *MinikubeNode.TOOLS)),
        (True, True, True, MinikubeNode.TOOLS),
    ],
)
def test_set_up_provides_what_this_machine_lacks(
    works: bool,
    reachable: bool,
    built: bool,
    needed: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Engine, "problem", lambda _self: None if works else "it does not work")
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(kind_node, "raised", lambda *_: None if reachable else "no answer")
    monkeypatch.setattr(MinikubeNode, "is_provided", lambda: built)
    assert tool.more_tools() == needed
