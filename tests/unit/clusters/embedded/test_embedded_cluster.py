"""The embedded cluster as a resource."""

from collections.abc import Callable
from typing import Any

import pytest

from clusters import owner
from clusters.embedded import pki
from clusters.embedded.embedded_cluster import EmbeddedHandler
from clusters.embedded.layout import Layout
from core.handler import Change
from core.paths import state_dir
from core.problem import Problem
from tests.unit.images.objects import Listener

Diff = Callable[..., list[Change]]


@pytest.mark.parametrize("directory", ["", "..", "dev/deeper", "/etc", "Dev", "dev-", "a" * 64])
def test_a_directory_that_is_no_clusters_is_never_removed(
    monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", pytest.fail)
    path = str(state_dir() / "clusters" / directory)
    with pytest.raises(RuntimeError, match="not removed"):
        EmbeddedHandler().delete({"directory": path, "owner": "slipway/dev"}, Listener())


def test_a_cluster_of_another_stack_is_neither_taken_nor_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("clusters.embedded.embedded_cluster.require", lambda _: None)
    monkeypatch.setattr("clusters.embedded.lifecycle.remove", pytest.fail)
    monkeypatch.setattr("clusters.embedded.lifecycle.bring_up", pytest.fail)
    directory = state_dir() / "clusters" / "shared"
    owner.claim(directory, "slipway/a")
    ours = {"name": "shared", "directory": str(directory), "owner": "slipway/b"}
    with pytest.raises(RuntimeError, match="belongs to the stack slipway/a, not to slipway/b"):
        EmbeddedHandler().create(ours, Listener())
    with pytest.raises(RuntimeError, match="belongs to the stack"):
        EmbeddedHandler().delete(ours, Listener())
    assert owner.stack_of(directory) == "slipway/a"


@pytest.fixture
def diff(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> Diff:
    """Return what compares a cluster with inputs; its looks find no problem or, in turn, these."""
    known = {"name": "dev", "directory": str(layout.directory)}
    made = {**known, "kubeconfig": pki.kubeconfig(layout, "admin")}
    monkeypatch.setattr("time.sleep", lambda _seconds: None)

    def compared(
        *looks: list[Problem], before: Any = None, renewed: bool = False, **changed: Any
    ) -> list[Change]:
        found = iter(looks or [[]])
        monkeypatch.setattr("clusters.embedded.health.problems", lambda *_: next(found))
        if renewed:
            layout.certificate("admin").unlink()
            pki.ensure(layout)
        inputs = {**known, **changed}
        return EmbeddedHandler().diff({**made, **(before or {})}, inputs, Listener())

    return compared


def test_faults_are_drift_but_not_what_passes(diff: Diff) -> None:
    etcd, late = Problem("etcd", "FATAL"), Problem("api", "no answer within 2 s")
    looks = [[etcd, etcd, Problem("node", "not Ready")]] * 2
    assert diff(*looks) == [Change("etcd", drift=True), Change("node", drift=True)]
    assert diff([late], []) == []
    # What the first look did not come to see counts as well.
    assert diff([late], [etcd]) == [Change("etcd", drift=True)]


def test_a_renewed_kubeconfig_and_the_internet_change_it_in_place(diff: Diff) -> None:
    """Also where the setting goes, and a cluster from before it does not change."""
    opened = {"internet": True}
    assert diff() == diff(before=opened, **opened) == []
    assert diff(**opened) == [Change("internet", "add")]
    assert diff(before=opened) == [Change("internet", "delete")]
    (change,) = diff(directory="/state/other")
    assert (change.path, change.replace) == ("directory", True)
    assert [each.path for each in diff(renewed=True)] == ["kubeconfig"]
