"""A cluster that somebody else has made, used with the rights that docs/existing-cluster.md lists.

A service account has exactly those; what comes out shows that they suffice.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.embedded import pki
from clusters.kinds import CLUSTERS
from clusters.kubeconfig.settings import KubeconfigSettings
from core.validation import check
from tests.engine.cli_stack import CALLED
from tests.engine.embedded_cluster import TestCluster
from tests.engine.kubeconfig_stack import (
    PLATFORM,
    account,
    images,
    kubeconfig_stack,
    login_command,
    write_kubeconfig,
)
from tests.live_cluster import install_operator

TEAM = "team-a"
_POD = {"spec": {"containers": [{"name": "pytorch", "image": "somebodys"}]}}
THEIRS = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "theirs", "namespace": TEAM},
    "spec": {
        "runPolicy": {"suspend": True},
        "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": _POD}},
    },
}
"""A job that is not Slipway's."""


@pytest.fixture(scope="module", autouse=True)
def platform(cluster: TestCluster) -> Iterator[None]:
    """What the people who look after the cluster have made there."""
    cluster.add_kubectl_image()
    cluster.kubectl("create", "namespace", PLATFORM)
    yield
    cluster.kubectl("delete", "namespace", PLATFORM, "--wait=false")


@pytest.fixture
def operator(cluster: TestCluster) -> Iterator[None]:
    """A training operator that somebody has installed, for a namespace that they have made."""
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    whole = install_operator(cluster, pki.kubeconfig(cluster.layout, "admin"), TEAM, [team])
    yield
    for each in reversed(whole):
        cluster.kubectl("delete", "--ignore-not-found", "--filename=-", manifests=[each])


def names(cluster: TestCluster, *kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.get(*kind)["items"]}


def test_with_the_listed_rights_a_stack_installs_the_operator_and_takes_it_away(
    cluster: TestCluster, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespaces, roles = names(cluster, "namespaces"), names(cluster, "clusterroles")
    token = account(cluster, "installer", "slipway-installer")
    file = write_kubeconfig(cluster, tmp_path, {"token": token})
    monkeypatch.setenv("KUBECONFIG", str(file))
    stack = kubeconfig_stack(tmp_path, root, {"context": "work", "images": images()})
    try:
        stack.up()
        assert stack.result("say")["state"] == "Succeeded"
        # It knows its own operator and its own namespaces again.
        assert stack.up().changes == {}
    finally:
        stack.destroy()
    assert names(cluster, "namespaces") == namespaces
    assert names(cluster, "clusterroles") == roles | {"slipway-installer"}
    assert names(cluster, "customresourcedefinitions") == set()


@pytest.mark.long
@pytest.mark.usefixtures("operator")
def test_with_rights_in_one_namespace_a_stack_uses_the_operator_that_is_there(
    cluster: TestCluster, tmp_path: Path, root: Path
) -> None:
    token = account(cluster, "user", "slipway-user", TEAM)
    file = write_kubeconfig(cluster, tmp_path, login_command(tmp_path, token))
    wanted = {"path": str(file), "context": "work", "images": images()}
    wanted |= {"namespace": TEAM, "operator": "existing"}
    stack = kubeconfig_stack(tmp_path, root, wanted)
    try:
        said = stack.up()
        assert stack.result("say")["state"] == "Succeeded"
        assert "forbidden" not in said.text
        assert any("pytorchjob say: kubectl" in each for each in left_over(wanted))
        cluster.kubectl("apply", "--filename=-", manifests=[THEIRS])
        assert names(cluster, "namespaces") >= {TEAM, "kubeflow"}
        assert "slipway-jobs" not in names(cluster, "namespaces")
        assert stack.up().changes == {}
    finally:
        stack.destroy()
    assert left_over(wanted) == []
    left = names(cluster, "pytorchjobs,serviceaccounts,networkpolicies", "--namespace", TEAM)
    assert left == {"theirs", "default"}


def left_over(cluster: dict[str, Any]) -> list[str]:
    """Return what `make down` would find of a stack with these settings."""
    settings = check(KubeconfigSettings, cluster, "slipway:cluster")
    assert isinstance(settings, KubeconfigSettings), settings
    (found,) = CLUSTERS["kubeconfig"].remains(settings, CALLED).values()
    return list(found)
