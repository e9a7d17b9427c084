"""Recorded pools with GPUs: what puts their marks on the node, scales them, and takes them back."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.offline.azure_recording import autoscaler, life, nodes
from scripts.offline.azure_recording.autoscaler import Autoscaler, fits
from scripts.offline.azure_recording.nodes import evict
from scripts.offline.azure_recording.pools import Pool, pool_of, pools
from scripts.offline.azure_recording.recording import Record, Recording
from tests.unit.azure_objects import POOL, cluster, group, lent

SPOT = "kubernetes.azure.com/scalesetpriority"
GPU_POOL: dict[str, Any] = {
    "resourceGroupName": "slipway",
    "resourceName": "slipway",
    "agentPoolName": "gpu",
    "vmSize": "Standard_NC64as_T4_v3",  # 4 GPUs
    "enableAutoScaling": True,
    "minCount": 0,
    "maxCount": 2,
    "count": 0,
    "scaleSetPriority": "Spot",
    "nodeLabels": {"pool": "gpu"},
    "nodeTaints": ["sku=gpu:NoSchedule"],
}


class Api:
    """A cluster with one node and these pods, that keeps what it is asked."""

    def __init__(self, pods: Sequence[Any] = ()) -> None:
        self.pods = list(pods)
        self.node = SimpleNamespace(
            metadata=SimpleNamespace(name="node"),
            spec=SimpleNamespace(
                taints=[SimpleNamespace(key="own", value="1", effect="NoSchedule")]
            ),
        )
        self.patches: list[Any] = []
        self.events: list[Any] = []
        self.deleted: list[str] = []

    def list_pod_for_all_namespaces(self, **_options: Any) -> Any:
        return SimpleNamespace(items=self.pods)

    def list_node(self, **_options: Any) -> Any:
        return SimpleNamespace(items=[self.node])

    def patch_node(self, _name: str, body: Any, **_options: Any) -> None:
        self.patches.append(body)

    def patch_node_status(self, _name: str, body: Any, **_options: Any) -> None:
        self.patches.append(body)

    def create_namespaced_event(self, _namespace: str, event: Any, **_options: Any) -> None:
        self.events.append(event)

    def delete_namespaced_pod(self, name: str, _namespace: str, **options: Any) -> None:
        assert options["grace_period_seconds"] == 0
        self.deleted.append(name)


def pod(
    name: str,
    gpus: int,
    *,
    tolerated: Sequence[str] = ("sku", SPOT),
    selector: dict[str, str] | None = None,
    on: str | None = None,
) -> Any:
    """Return a pod that waits for a node, or is `on` one."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    waiting = SimpleNamespace(type="PodScheduled", reason="Unschedulable")
    return SimpleNamespace(
        metadata=SimpleNamespace(name=name, namespace="jobs", uid=f"uid-{name}"),
        spec=SimpleNamespace(
            containers=[SimpleNamespace(resources=SimpleNamespace(limits=limits))],
            node_selector=selector,
            node_name=on,
            tolerations=[
                SimpleNamespace(key=key, operator="Exists", value=None, effect="NoSchedule")
                for key in tolerated
            ],
        ),
        status=SimpleNamespace(
            phase="Pending" if on is None else "Running",
            conditions=[waiting] if on is None else [],
        ),
    )


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    made = Api()
    for module in (nodes, autoscaler):
        monkeypatch.setattr(module, "core", lambda _recording: made)
    return made


@pytest.fixture
def recording(tmp_path: Path, api: Api) -> Recording:
    """A recording with a pool that has no nodes."""
    made = lent(tmp_path)
    group(made)
    cluster(made)
    life.create(made, POOL, GPU_POOL, preview=False)
    api.patches.clear()
    return Recording(tmp_path)


def the_pool(recording: Recording) -> Pool:
    [found] = pools(recording)
    return found


def test_a_pool_of_the_program_is_one_of_nodes(recording: Recording) -> None:
    pool = the_pool(recording)
    assert (pool.name, pool.per_node, pool.bounds, pool.count) == ("gpu", 4, (0, 2), 0)
    # AKS gives spot nodes a label and a taint of their own.
    assert pool.labels == {"pool": "gpu", SPOT: "spot"}
    assert [taint["key"] for taint in pool.taints] == ["sku", SPOT]


def test_a_pool_on_azure_local_is_one_too() -> None:
    body = {"vmSize": "Standard_NC4_A2", "count": 1, "nodeLabels": {"pool": "gpu"}}
    inputs = {"resourceType": "agentPools", "properties": body}
    pool = pool_of(Record("/a/agentPools/gpu", "azure-native:resources:Resource", inputs))
    assert pool is not None
    assert (pool.per_node, pool.bounds, pool.labels) == (1, (1, 1), {"pool": "gpu"})


def test_a_pool_without_gpus_is_none_of_these(tmp_path: Path, api: Api) -> None:
    made = lent(tmp_path)
    group(made)
    cluster(made)
    cpu = {**GPU_POOL, "vmSize": "Standard_D4s_v5"}
    life.create(made, POOL, cpu, preview=False)
    assert list(pools(Recording(tmp_path))) == []
    assert api.patches == []


def test_a_pod_without_a_node_has_one_made_for_it_and_is_told(
    recording: Recording, api: Api
) -> None:
    api.pods = [pod("rank-0", 4), pod("rank-1", 4)]
    Autoscaler(recording)._look()
    assert the_pool(recording).count == 2
    marks, status = api.patches
    assert marks["metadata"]["labels"].items() >= {"pool": "gpu", SPOT: "spot"}.items()
    assert [taint["key"] for taint in marks["spec"]["taints"]] == ["own", "sku", SPOT]
    assert status["status"]["allocatable"] == {"nvidia.com/gpu": "8"}
    assert {event.reason for event in api.events} == {"TriggeredScaleUp"}
    assert "gpu 0->2 (max: 2)" in api.events[0].message


@pytest.mark.parametrize(
    "waiting",
    [
        pod("cpu", 0),
        pod("stranger", 1, tolerated=["sku"]),
        pod("elsewhere", 1, selector={"pool": "cpu"}),
    ],
    ids=lambda each: str(each.metadata.name),
)
def test_a_pod_that_would_not_fit_has_no_node_made(
    recording: Recording, api: Api, waiting: Any
) -> None:
    api.pods = [waiting]
    Autoscaler(recording)._look()
    assert the_pool(recording).count == 0
    assert api.events == api.patches == []


def test_a_pod_beyond_the_most_nodes_is_told_so_once(recording: Recording, api: Api) -> None:
    api.pods = [pod("rank-0", 4, on="node"), pod("rank-1", 4, on="node"), pod("rank-2", 4)]
    nodes.scale(recording, the_pool(recording), 2)
    scaler = Autoscaler(recording)
    scaler._look()
    scaler._look()
    [event] = api.events
    assert event.reason == "NotTriggerScaleUp"
    assert "max node group size reached" in event.message


def test_a_node_that_no_pod_needs_is_given_back_after_a_while(
    recording: Recording, api: Api
) -> None:
    nodes.scale(recording, the_pool(recording), 2)
    api.patches.clear()
    scaler = Autoscaler(recording)
    looks = int(autoscaler._IDLE / autoscaler._PAUSE)
    for _ in range(looks):
        scaler._look()
    assert the_pool(recording).count == 2
    scaler._look()
    assert the_pool(recording).count == 0
    marks, status = api.patches
    assert marks["metadata"]["labels"]["pool"] is None
    assert [taint["key"] for taint in marks["spec"]["taints"]] == ["own"]
    assert status["status"]["capacity"] == {"nvidia.com/gpu": None}


def test_an_update_keeps_the_nodes_that_are_there(recording: Recording, tmp_path: Path) -> None:
    nodes.scale(recording, the_pool(recording), 2)
    resource_id = the_pool(recording).record.id
    inputs = {"old": GPU_POOL, "new": {**GPU_POOL, "maxCount": 3}}
    life.update(lent(tmp_path), POOL, resource_id, inputs, preview=False)
    assert the_pool(recording).bounds == (0, 3)
    assert the_pool(recording).count == 2


def test_more_nodes_at_least_are_made_at_once(recording: Recording, tmp_path: Path) -> None:
    inputs = {"old": GPU_POOL, "new": {**GPU_POOL, "minCount": 1}}
    life.update(lent(tmp_path), POOL, the_pool(recording).record.id, inputs, preview=False)
    assert the_pool(recording).count == 1


def test_what_azure_takes_back_goes_with_its_pods(recording: Recording, api: Api) -> None:
    nodes.scale(recording, the_pool(recording), 2)
    api.pods = [pod("rank-0", 4, on="node"), pod("cpu", 0, on="node"), pod("rank-1", 4)]
    assert evict(recording, the_pool(recording).record.id) == ["rank-0"]
    assert api.deleted == ["rank-0"]
    assert the_pool(recording).count == 0


def test_only_spot_nodes_are_taken_back(recording: Recording) -> None:
    [other] = [each for each in recording.all() if each.type != POOL and "managed" in each.id]
    with pytest.raises(LookupError, match="no spot pool"):
        evict(recording, other.id)


def test_a_pool_that_goes_takes_its_marks_off_the_node(
    recording: Recording, api: Api, tmp_path: Path
) -> None:
    nodes.scale(recording, the_pool(recording), 1)
    api.patches.clear()
    life.delete(lent(tmp_path), the_pool(recording).record.id)
    assert api.patches[0]["metadata"]["labels"]["pool"] is None
    assert list(pools(recording)) == []


def test_a_pod_fits_where_it_tolerates_every_taint() -> None:
    pool = Pool(Record("/p/gpu", POOL, GPU_POOL), GPU_POOL)
    assert fits(pod("a", 1), pool)
    assert not fits(pod("a", 1, tolerated=[SPOT]), pool)
