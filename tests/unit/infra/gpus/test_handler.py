"""GPUs are ready once nodes offer them and a pod calculated on one; else the reason is told."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from core import wait
from core.handler import UNKNOWN, Change
from infra.gpus import handler
from infra.gpus.handler import GpuReadyHandler
from infra.gpus.manifests import facts
from tests.unit import row
from tests.unit.fake_api import Answer, FakeApi, served
from tests.unit.gpu_objects import POOL, node, plugin

NODES = "/api/v1/nodes"
PLUGINS = "/api/v1/namespaces/slipway-gpu"
PODS = "/api/v1/namespaces/slipway-jobs/pods"
PROBE = f"{PODS}/slipway-cuda-probe"
FOUND = {
    "device": "cuda",
    "device_name": "Tesla T4",
    "devices": 1,
    "node": "gpu-1",
    "driver": "NVRM version: 580.95",
    "cuda": "12.8",
    "torch": "2.9.1",
}


@dataclass
class Row(row.Row):
    """A resource's row in `pulumi up` that keeps warnings apart."""

    warnings: list[str] = field(default_factory=list)

    def warn(self, message: str) -> None:
        self.warnings.append(message)


@dataclass
class Cluster:
    """A cluster with one GPU, whose pods end at once with what `message` says."""

    api: FakeApi
    message: object = field(default_factory=lambda: dict(FOUND))
    status: dict[str, Any] | None = None
    pod: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.api.says("GET", NODES, {"items": [node()]})
        self.api.answers["POST", PODS] = self._create
        self.api.answers["GET", PROBE] = self._read
        self.api.answers["DELETE", PROBE] = self._delete

    def _create(self, body: Any) -> Answer:
        text = self.message if isinstance(self.message, str) else json.dumps(self.message)
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "message": text}}
        container = {"name": "probe", "image": "i", "imageID": "", "ready": False}
        statuses = [{**container, "restartCount": 0, "state": ended}]
        status = self.status or {"phase": "Succeeded", "containerStatuses": statuses}
        self.pod = {**body, "status": status}
        return 201, self.pod

    def _read(self, _body: Any) -> Answer:
        missing = {"kind": "Status", "message": "not found"}
        return (404, missing) if self.pod is None else (200, self.pod)

    def _delete(self, _body: Any) -> Answer:
        self.pod = None
        return 200, {"kind": "Status"}

    @property
    def made(self) -> list[Any]:
        return [body for method, path, body in self.api.asked if (method, path) == ("POST", PODS)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with served(FakeApi()) as api:
        yield Cluster(api)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each wait after a moment."""
    monkeypatch.setattr(handler, "NODES_SECONDS", 1.5)
    monkeypatch.setattr(handler, "PROBE_SECONDS", 1)
    monkeypatch.setattr(wait, "POLL_SECONDS", 0.05)


def inputs(cluster: Cluster, **changed: Any) -> dict[str, Any]:
    return {
        "kubeconfig": cluster.api.kubeconfig,
        "namespace": "slipway-jobs",
        "account": "slipway-job",
        "pool": facts(POOL),
        "image": "trainer-cuda:1",
        "rollout": "x",
    } | changed


def cuda(cluster: Cluster, shown: Row | None = None, **changed: Any) -> dict[str, Any]:
    _, outputs = GpuReadyHandler().create(inputs(cluster, **changed), shown or Row())
    found: dict[str, Any] = outputs["cuda"]
    return found


def test_a_gpu_that_calculated_is_verified_with_what_is_known_of_it(cluster: Cluster) -> None:
    shown = Row()
    found = cuda(cluster, shown)
    assert found == {
        "state": "verified",
        "nodes": 1,
        "gpus": 1,
        **{name: FOUND[name] for name in FOUND if name != "device"},
    }
    assert shown.warnings == []
    (pod,) = cluster.made
    assert pod["spec"]["containers"][0]["image"] == "trainer-cuda:1"


def test_the_pod_that_tried_it_is_gone_afterwards(cluster: Cluster) -> None:
    cuda(cluster)
    assert cluster.pod is None


def test_a_pod_that_an_interrupted_update_left_makes_room_for_a_new_one(cluster: Cluster) -> None:
    cluster.pod = {"metadata": {"name": "slipway-cuda-probe"}, "status": {"phase": "Succeeded"}}
    assert cuda(cluster)["state"] == "verified"
    assert len(cluster.made) == 1


def test_a_pool_that_begins_with_no_nodes_costs_nothing_to_look_at(cluster: Cluster) -> None:
    found = cuda(cluster, pool=facts(replace(POOL, min_nodes=0)))
    assert found["state"] == "unverified"
    assert "the first job with GPUs" in found["reason"]
    assert cluster.api.asked == []


def test_without_an_image_for_cuda_the_nodes_are_waited_for_and_nothing_is_tried(
    cluster: Cluster,
) -> None:
    given = inputs(cluster)
    del given["image"]
    _, outputs = GpuReadyHandler().create(given, Row())
    assert outputs["cuda"]["state"] == "unverified"
    assert (outputs["cuda"]["nodes"], outputs["cuda"]["gpus"]) == (1, 1)
    assert cluster.made == []


def test_capacity_that_is_not_real_is_told_and_ends_nothing(cluster: Cluster) -> None:
    cluster.message = {
        "device": "none", "driver": None, "node": "gpu-1", "reason": "RuntimeError: no driver",
    }  # fmt: skip
    shown = Row()
    found = cuda(cluster, shown)
    assert found["state"] == "unverified"
    assert "no NVIDIA driver, so that capacity is not real" in found["reason"]
    (warning,) = shown.warnings
    assert warning.startswith("cuda: unverified: ")


def test_a_driver_that_containers_cannot_use_fails_the_update(cluster: Cluster) -> None:
    cluster.message = {**FOUND, "device": "none", "reason": "RuntimeError: driver too old"}
    with pytest.raises(RuntimeError, match="can't compute on it: RuntimeError: driver too old"):
        cuda(cluster)
    assert cluster.pod is None


def test_a_pod_that_could_not_be_started_fails_the_update_with_the_nodes_words(
    cluster: Cluster,
) -> None:
    cluster.status = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Allocate failed due to no healthy devices present",
    }
    with pytest.raises(RuntimeError, match="UnexpectedAdmissionError: Allocate failed"):
        cuda(cluster)


def test_a_pod_that_waits_too_long_fails_the_update_with_what_it_waited_for(
    cluster: Cluster,
) -> None:
    message = "0/1 nodes are available: 1 node(s) had untolerated taint {team: vision}"
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    cluster.status = {"phase": "Pending", "conditions": [condition]}
    with pytest.raises(TimeoutError, match="untolerated taint"):
        cuda(cluster)
    assert cluster.pod is None


def test_gpus_that_others_use_are_not_waited_for(cluster: Cluster) -> None:
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    cluster.status = {"phase": "Pending", "conditions": [condition]}
    assert cuda(cluster)["reason"] == "all GPUs are in use, so none was tested"
    assert cluster.pod is None


def test_a_quota_that_leaves_no_gpu_is_told_in_the_api_servers_words(cluster: Cluster) -> None:
    words = "pods is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1"
    cluster.api.says("POST", PODS, {"kind": "Status", "message": words}, status=403)
    with pytest.raises(RuntimeError, match="exceeded quota: team"):
        cuda(cluster)


def test_an_account_that_may_not_look_or_try_is_no_failure(cluster: Cluster) -> None:
    words = 'pods is forbidden: User "u" cannot create resource "pods"'
    cluster.api.says("POST", PODS, {"kind": "Status", "message": words}, status=403)
    assert "may not create a pod" in cuda(cluster)["reason"]
    words = 'nodes is forbidden: User "u" cannot list resource "nodes"'
    cluster.api.says("GET", NODES, {"kind": "Status", "message": words}, status=403)
    assert "may not list nodes" in cuda(cluster)["reason"]


def test_nodes_that_do_not_offer_gpus_in_time_fail_the_update_with_the_reasons(
    cluster: Cluster,
) -> None:
    cluster.api.says("GET", NODES, {"items": [node(gpus=None)]})
    crashed = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    cluster.api.says("GET", f"{PLUGINS}/pods", {"items": [plugin(crashed)]})
    cluster.api.says("GET", f"{PLUGINS}/events", {"items": []})
    log = "Starting OS watcher.\nFailed to initialize NVML: could not load NVML library.\n"
    cluster.api.says("GET", f"{PLUGINS}/pods/plugin-on-gpu-1/log", log)
    shown = Row()
    with pytest.raises(TimeoutError) as caught:
        cuda(cluster, shown)
    text = str(caught.value)
    assert "after 1.5 s of waiting for the cluster's GPUs: 0 of 1 nodes offer" in text
    assert "could not load NVML library" in text
    assert "for AKS to install" in text
    assert "made-up" not in text, "the token is in the error"
    assert any("could not load NVML" in line for line in shown.said)


def test_a_cloud_that_makes_no_node_is_told_with_what_is_behind_it(cluster: Cluster) -> None:
    cluster.api.says("GET", NODES, {"items": []})
    about = {
        "metadata": {"name": "e"},
        "involvedObject": {"name": "cluster-autoscaler-status"},
        "reason": "FailedToScaleUpGroup",
        "message": "Scale-up failed for group aks-gpu: Code=SkuNotAvailable",
    }
    system = "/api/v1/namespaces/kube-system"
    map_ = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": ""}}
    cluster.api.says("GET", f"{system}/configmaps/cluster-autoscaler-status", map_)
    cluster.api.says("GET", f"{system}/events", {"items": [about]})
    with pytest.raises(TimeoutError, match="spot ones least of all"):
        cuda(cluster)


def test_nodes_that_come_late_are_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "NODES_SECONDS", 60)
    looks: list[None] = []

    def late(_body: Any) -> Answer:
        looks.append(None)
        return 200, {"items": [node(gpus=1 if len(looks) > 3 else None)]}

    cluster.api.answers["GET", NODES] = late
    assert cuda(cluster)["state"] == "verified"


def test_a_node_with_fewer_gpus_than_it_should_have_is_warned_of(cluster: Cluster) -> None:
    shown = Row()
    assert cuda(cluster, shown, pool=facts(replace(POOL, per_node=4)))["gpus"] == 1
    assert shown.warnings == ["node gpu-1 offers 1 of its 4 x nvidia.com/gpu"]


def test_ctrl_c_ends_the_wait_at_once(cluster: Cluster) -> None:
    cluster.api.says("GET", NODES, {"items": []})
    shown = Row()
    shown.cancelled.set()
    with pytest.raises(InterruptedError):
        cuda(cluster, shown)


def test_an_up_tries_nothing_again_while_the_nodes_are_there(cluster: Cluster) -> None:
    given = inputs(cluster)
    assert GpuReadyHandler().diff({**given, "cuda": {}}, given, Row()) == []
    assert cluster.made == []


def test_an_up_waits_for_nodes_that_are_gone(cluster: Cluster) -> None:
    cluster.api.says("GET", NODES, {"items": []})
    given = inputs(cluster)
    assert GpuReadyHandler().diff(given, given, Row()) == [Change("pool", drift=True)]


def test_a_preview_asks_no_cluster_that_is_not_there_yet(cluster: Cluster) -> None:
    given = inputs(cluster, kubeconfig=UNKNOWN)
    assert GpuReadyHandler().diff(inputs(cluster), given, Row()) == [Change("kubeconfig")]
    assert cluster.api.asked == []


def test_a_destroy_leaves_no_pod(cluster: Cluster) -> None:
    cluster.pod = {"metadata": {"name": "slipway-cuda-probe"}}
    GpuReadyHandler().delete(inputs(cluster), Row())
    assert cluster.pod is None
