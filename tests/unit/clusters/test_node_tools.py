"""What set-up provides for clusters whose nodes are containers."""

from types import ModuleType

import pytest

from clusters.cli_clusters import podman
from clusters.cli_clusters.engine import Engine
from clusters.kind import tool as kind
from clusters.minikube import tool as minikube
from images.build import kind_node
from images.build.kind_node import KindNode, MinikubeNode


@pytest.mark.parametrize(("tool", "node"), [(kind, KindNode), (minikube, MinikubeNode)])
@pytest.mark.parametrize(
    ("works", "reachable", "built", "needs_engine", "needs_node"),
    [
        (True, True, False, False, False),
        (False, False, False, True, True),
        # Otherwise a second set-up would forget what the cluster's nodes are made from.
        (True, True, True, False, True),
    ],
)
def test_set_up_provides_what_this_machine_lacks(
    tool: ModuleType,
    node: type[KindNode],
    works: bool,
    reachable: bool,
    built: bool,
    needs_engine: bool,
    needs_node: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Engine, "problem", lambda _self: None if works else "it does not work")
    monkeypatch.setattr(kind, "on_path", lambda: [Engine("docker")])
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(kind_node, "raised", lambda *_: None if reachable else "no answer")
    monkeypatch.setattr(node, "is_provided", lambda: built)
    needed = (*(podman.TOOLS if needs_engine else ()), *(node.TOOLS if needs_node else ()))
    assert tool.more_tools() == needed
