"""Which engine holds minikube's nodes."""

import pytest

from clusters.cli_clusters import podman
from clusters.cli_clusters.engine import Engine
from clusters.minikube.tool import MinikubeTool

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
