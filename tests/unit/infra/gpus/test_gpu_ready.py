"""GPUs are ready once nodes offer them; else the reason is told."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from core import wait
from core.handler import Change
from infra.gpus import gpu_ready
from infra.gpus.gpu_ready import GpuReadyHandler
from tests.unit.fake_api import Answer, FakeApi, served
from tests.unit.gpu_objects import POOL, node, plugin
from tests.unit.images.objects import Listener

NODES = "/api/v1/nodes"
PLUGINS = "/api/v1/namespaces/slipway-gpu"


@pytest.fixture
def cluster() -> Iterator[FakeApi]:
    """The API server of a cluster with one GPU."""
    with served(FakeApi()) as api:
        api.says("GET", NODES, {"items": [node()]})
        yield api


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each wait after a moment."""
    monkeypatch.setattr(gpu_ready, "NODES_SECONDS", 1.5)
    monkeypatch.setattr(wait, "POLL_SECONDS", 0.05)


def inputs(cluster: FakeApi, **changed: Any) -> dict[str, Any]:
    return {"kubeconfig": cluster.kubeconfig, "pool": POOL.as_input(), "rollout": "x"} | changed


def cuda(cluster: FakeApi, shown: Listener | None = None, **changed: Any) -> dict[str, Any]:
    _, outputs = GpuReadyHandler().create(inputs(cluster, **changed), shown or Listener())
    found: dict[str, Any] = outputs["cuda"]
    return found


def test_nodes_that_offer_gpus_are_waited_for_and_counted(
    cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_ready, "NODES_SECONDS", 60)
    looks = iter([(200, None), (429, None), (200, 1), (200, 1)])

    def late(_body: Any) -> Answer:
        status, gpus = next(looks)
        return status, {"items": [node(gpus=gpus)]}

    cluster.answers["GET", NODES] = late
    shown = Listener()
    unverified = {"state": "unverified", "reason": "no job has computed on a GPU yet"}
    assert cuda(cluster, shown) == {**unverified, "nodes": 1, "gpus": 1}
    assert shown.lines == []
    cluster.says("GET", NODES, {"items": [node()]})
    assert cuda(cluster, shown, pool=replace(POOL, per_node=4).as_input())["gpus"] == 1
    assert shown.lines == ["node gpu-1: only 1 of 4 x nvidia.com/gpu can be allocated"]


def test_an_account_that_may_not_list_nodes_is_no_failure(cluster: FakeApi) -> None:
    words = 'nodes is forbidden: User "u" cannot list resource "nodes"'
    cluster.says("GET", NODES, {"kind": "Status", "message": words}, status=403)
    shown = Listener()
    assert "is not allowed to list nodes" in cuda(cluster, shown)["reason"]
    (warning,) = shown.lines
    assert warning.startswith("cuda: unverified: ")


def test_nodes_without_gpus_in_time_fail_with_the_reasons(cluster: FakeApi) -> None:
    cluster.says("GET", NODES, {"items": [node(gpus=None)]})
    crashed = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    cluster.says("GET", f"{PLUGINS}/pods", {"items": [plugin(crashed)]})
    cluster.says("GET", f"{PLUGINS}/events", {"items": []})
    log = "Starting OS watcher.\nFailed to initialize NVML: could not load NVML library.\n"
    cluster.says("GET", f"{PLUGINS}/pods/plugin-on-gpu-1/log", log)
    shown = Listener()
    with pytest.raises(TimeoutError) as caught:
        cuda(cluster, shown)
    text = str(caught.value)
    waited = "timed out after 1.5 s of waiting for the cluster's GPUs"
    assert f"{waited}: 0 of 1 nodes have nvidia.com/gpu" in text
    assert "could not load NVML library" in text
    assert "AKS must install" in text
    assert "made-up" not in text, "the token is in the error"
    assert any("could not load NVML" in line for line in shown.shown)


def test_a_failed_scale_up_is_reported_with_its_cause(cluster: FakeApi) -> None:
    cluster.says("GET", NODES, {"items": []})
    about = {
        "metadata": {"name": "e"},
        "involvedObject": {"name": "cluster-autoscaler-status"},
        "reason": "FailedToScaleUpGroup",
        "message": "Scale-up failed for group aks-gpu: Code=SkuNotAvailable",
    }
    system = "/api/v1/namespaces/kube-system"
    map_ = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": ""}}
    cluster.says("GET", f"{system}/configmaps", {"items": [map_]})
    cluster.says("GET", f"{system}/events", {"items": [about]})
    with pytest.raises(TimeoutError, match="spot machines run out first"):
        cuda(cluster)


def test_an_up_waits_only_for_nodes_that_are_gone(cluster: FakeApi) -> None:
    given = inputs(cluster)
    assert GpuReadyHandler().diff({**given, "cuda": {}}, given, Listener()) == []
    cluster.says("GET", NODES, {"items": []})
    assert GpuReadyHandler().diff(given, given, Listener()) == [Change("pool", drift=True)]
