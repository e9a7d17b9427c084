"""The embedded cluster as a resource."""

from pathlib import Path

import pytest

from clusters import owner
from clusters.embedded import pki
from clusters.embedded.embedded_cluster import EmbeddedHandler
from clusters.embedded.layout import Layout
from clusters.embedded.pki import kubeconfig
from core.handler import Change
from core.paths import state_dir
from core.problem import Problem
from tests.unit.images.objects import Listener


@pytest.mark.parametrize(
    "directory", ["", "..", "dev/deeper", "/etc", "Dev", "-dev", "dev-", "a" * 64, "a_b"]
)
def test_a_directory_that_is_no_clusters_is_never_removed(
    monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    removed: list[Layout] = []
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", removed.append)
    path = str(state_dir() / "clusters" / directory)
    with pytest.raises(RuntimeError, match="not removed"):
        EmbeddedHandler().delete({"directory": path, "owner": "slipway/dev"}, Listener())
    assert removed == []


def test_a_cluster_of_another_stack_is_neither_taken_nor_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed: list[object] = []
    monkeypatch.setattr("clusters.embedded.embedded_cluster.require", lambda _: None)
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", changed.append)
    monkeypatch.setattr("clusters.embedded.lifecycle.bring_up", lambda *_: changed.append("up"))
    directory = state_dir() / "clusters" / "shared"
    owner.claim(directory, "slipway/a")
    ours = {"name": "shared", "directory": str(directory), "owner": "slipway/b"}
    with pytest.raises(RuntimeError, match="belongs to the stack slipway/a, not to slipway/b"):
        EmbeddedHandler().create(ours, Listener())
    with pytest.raises(RuntimeError, match="belongs to the stack"):
        EmbeddedHandler().delete(ours, Listener())
    assert changed == []
    assert owner.stack_of(directory) == "slipway/a"


@pytest.fixture
def made(tmp_path: Path) -> dict[str, str]:
    layout = Layout(tmp_path / "dev")
    pki.ensure(layout)
    known = {"name": "dev", "directory": str(layout.directory)}
    return {**known, "kubeconfig": kubeconfig(layout, "admin")}


def _healthy(monkeypatch: pytest.MonkeyPatch, *problems: Problem) -> None:
    monkeypatch.setattr("clusters.embedded.health.problems", lambda *_: list(problems))
    monkeypatch.setattr("clusters.embedded.health._SECOND_LOOK_SECONDS", 0)


def test_faults_are_drift_in_place(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = Problem("etcd", "FATAL")
    _healthy(monkeypatch, etcd, etcd, Problem("node", "not Ready"))
    inputs = {"name": "dev", "directory": made["directory"]}
    changes = EmbeddedHandler().diff(made, inputs, Listener())
    assert changes == [Change("etcd", drift=True), Change("node", drift=True)]


def test_what_passes_is_no_drift(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _healthy(monkeypatch)
    late, gone = Problem("api", "no answer within 2 s"), Problem("etcd", "FATAL")
    looks = iter([[late], [], [late], [gone]])
    monkeypatch.setattr("clusters.embedded.health.problems", lambda *_: next(looks))
    inputs = {"name": "dev", "directory": made["directory"]}
    assert EmbeddedHandler().diff(made, inputs, Listener()) == []
    # What the first look did not come to see counts as well.
    (change,) = EmbeddedHandler().diff(made, inputs, Listener())
    assert change.path == "etcd"


def test_renewed_credentials_go_out(made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _healthy(monkeypatch)
    layout = Layout(Path(made["directory"]))
    layout.certificate("admin").unlink()
    pki.ensure(layout)
    inputs = {"name": "dev", "directory": made["directory"]}
    (change,) = EmbeddedHandler().diff(made, inputs, Listener())
    assert change.path == "kubeconfig"


def test_another_directory_is_another_cluster(made: dict[str, str]) -> None:
    inputs = {"name": "dev", "directory": "/state/other"}
    (change,) = EmbeddedHandler().diff(made, inputs, Listener())
    assert (change.path, change.replace) == ("directory", True)


def test_the_kubeconfig_is_secret() -> None:
    assert "kubeconfig" in EmbeddedHandler.secret_outputs


def test_the_internet_is_opened_and_closed_in_place(
    made: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the setting goes, and a cluster from before it does not change."""
    _healthy(monkeypatch)
    closed = {"name": "dev", "directory": made["directory"]}
    opened = {**closed, "internet": True}
    diff = EmbeddedHandler().diff
    assert diff(made, closed, Listener()) == []
    assert diff(made, opened, Listener()) == [Change("internet", "add")]
    assert diff({**made, "internet": True}, opened, Listener()) == []
    assert diff({**made, "internet": True}, closed, Listener()) == [Change("internet", "delete")]
