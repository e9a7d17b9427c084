"""The double's pools with GPUs: their labels on the node, scaling, and evictions."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes.client import ApiException
from pulumi.provider.experimental import provider as protocol
from pulumi.runtime.proto import engine_pb2_grpc

from clusters.aks.node_pools import priorities
from infra.provider.engine import plain_map, wrap_map
from tests.doubles.azure_native import autoscaler, nodes
from tests.doubles.azure_native.autoscaler import Autoscaler, fits
from tests.doubles.azure_native.nodes import evict
from tests.doubles.azure_native.pools import Pool, pool_of, pools
from tests.doubles.azure_native.provider import AzureDouble
from tests.doubles.azure_native.store import VARIABLE, Record, Store

CLUSTER = "azure-native:containerservice:ManagedCluster"
POOL = "azure-native:containerservice:AgentPool"
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
        self.config_maps: dict[str, Any] = {}

    def read_namespaced_config_map(self, name: str, _namespace: str, **_options: Any) -> Any:
        if name not in self.config_maps:
            raise ApiException(status=404)
        return self.config_maps[name]

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
        monkeypatch.setattr(module, "core", lambda _store: made)
    return made


@pytest.fixture
def double(tmp_path: Path, api: Api, monkeypatch: pytest.MonkeyPatch) -> AzureDouble:
    """A double with a pool that has no nodes."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    made = AzureDouble(cast(engine_pb2_grpc.EngineStub, None))
    made.make("azure-native:resources:ResourceGroup", GPU_POOL)
    made.make(CLUSTER, {**GPU_POOL, "location": "westeurope"})
    made.make(POOL, GPU_POOL)
    api.patches.clear()
    return made


@pytest.fixture
def store(double: AzureDouble) -> Store:
    """Where the pool is."""
    return double.store


def the_pool(store: Store) -> Pool:
    [found] = pools(store)
    return found


def counts(store: Store) -> dict[str, int]:
    """Return how many nodes each pool has."""
    return {pool.name: pool.count for pool in pools(store)}


def test_a_pool_of_the_program_is_one_of_nodes(store: Store) -> None:
    pool = the_pool(store)
    assert (pool.name, pool.gpus_per_node, pool.bounds, pool.count) == ("gpu", 4, (0, 2), 0)
    # AKS gives spot nodes a label and a taint of their own.
    assert pool.labels == {"pool": "gpu", SPOT: "spot"}
    assert [taint["key"] for taint in pool.taints] == ["sku", SPOT]


def test_a_read_of_the_cluster_lists_all_pools_and_not_in_their_order(
    double: AzureDouble, store: Store
) -> None:
    [cluster] = [each for each in store.all() if each.type == CLUSTER]
    profiles = [{"name": "system", "count": 1}]
    declared = {"location": "westeurope", "agentPoolProfiles": profiles}
    store.put(cluster.changed(agentPoolProfiles=profiles))
    urn = f"urn:pulumi:a::slipway::{CLUSTER}::azure"
    read = asyncio.run(double.read(protocol.ReadRequest(urn, cluster.id, {}, wrap_map(declared))))
    found = plain_map(read.inputs or {})
    assert [each["name"] for each in found["agentPoolProfiles"]] == ["gpu", "system"]

    def changes(*ignored: str) -> Any:
        request = protocol.DiffRequest(
            urn, cluster.id, wrap_map(found), wrap_map(declared), [*ignored]
        )
        return asyncio.run(double.diff(request)).changes

    # The program ignores the property: an index in it would be another pool's.
    assert changes("agentPoolProfiles[0].count") is True
    assert changes("agentPoolProfiles") is False


def test_a_pool_on_azure_local_is_one_too() -> None:
    body = {"vmSize": "Standard_NC4_A2", "count": 1, "nodeLabels": {"pool": "gpu"}}
    inputs = {"resourceType": "agentPools", "properties": body}
    pool = pool_of(Record("/a/agentPools/gpu", "azure-native:resources:Resource", inputs))
    assert pool is not None
    assert (pool.gpus_per_node, pool.bounds, pool.labels) == (1, (1, 1), {"pool": "gpu"})


def test_a_pool_without_gpus_is_none_of_these(double: AzureDouble, api: Api) -> None:
    before = the_pool(double.store)
    double.make(POOL, {**GPU_POOL, "agentPoolName": "cpu", "vmSize": "Standard_D4s_v5"})
    assert list(pools(double.store)) == [before]
    assert api.patches == []


def test_a_pod_without_a_node_gets_one_and_an_event(store: Store, api: Api) -> None:
    api.pods = [pod("rank-0", 4), pod("rank-1", 4)]
    Autoscaler(store).look()
    assert the_pool(store).count == 2
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
def test_a_pod_that_would_not_fit_gets_no_node(store: Store, api: Api, waiting: Any) -> None:
    api.pods = [waiting]
    Autoscaler(store).look()
    assert the_pool(store).count == 0
    assert api.events == api.patches == []


def test_a_pod_beyond_the_most_nodes_gets_an_event_once(store: Store, api: Api) -> None:
    api.pods = [pod("rank-0", 4, on="node"), pod("rank-1", 4, on="node"), pod("rank-2", 4)]
    nodes.scale(store, the_pool(store), 2)
    scaler = Autoscaler(store)
    scaler.look()
    scaler.look()
    [event] = api.events
    assert event.reason == "NotTriggerScaleUp"
    assert "max node group size reached" in event.message


def test_regular_nodes_are_made_only_while_there_are_no_spot_nodes(
    double: AzureDouble, store: Store, api: Api
) -> None:
    regular = {**GPU_POOL, "agentPoolName": "gpufallback", "scaleSetPriority": "Regular"}
    double.make(POOL, regular)
    [cluster] = [each for each in store.all() if each.type == CLUSTER]
    store.put(cluster.changed(autoScalerProfile={"expander": "priority"}))
    api.pods = [pod("rank-0", 4)]
    # Without the ConfigMap the expander has no choice to make.
    Autoscaler(store).look()
    assert counts(store) == {"gpu": 0, "gpufallback": 0}
    (order,) = priorities(["gpu", "gpufallback"])
    api.config_maps[order["metadata"]["name"]] = SimpleNamespace(data=order["data"])
    store.without_spot.touch()
    Autoscaler(store).look()
    assert counts(store) == {"gpu": 0, "gpufallback": 1}
    store.without_spot.unlink()
    Autoscaler(store).look()
    assert counts(store) == {"gpu": 1, "gpufallback": 1}


def test_a_node_that_no_pod_needs_is_removed_after_a_while(store: Store, api: Api) -> None:
    nodes.scale(store, the_pool(store), 2)
    api.patches.clear()
    scaler = Autoscaler(store)
    looks = int(autoscaler._IDLE / autoscaler._PAUSE)
    for _ in range(looks):
        scaler.look()
    assert the_pool(store).count == 2
    scaler.look()
    assert the_pool(store).count == 0
    marks, status = api.patches
    assert marks["metadata"]["labels"]["pool"] is None
    assert [taint["key"] for taint in marks["spec"]["taints"]] == ["own"]
    assert status["status"]["capacity"] == {"nvidia.com/gpu": None}


def test_an_update_keeps_the_number_of_nodes(double: AzureDouble, store: Store) -> None:
    nodes.scale(store, the_pool(store), 2)
    double.change(the_pool(store).record.id, {**GPU_POOL, "maxCount": 3})
    assert the_pool(store).bounds == (0, 3)
    assert the_pool(store).count == 2


def test_a_higher_minimum_is_made_at_once(double: AzureDouble, store: Store) -> None:
    double.change(the_pool(store).record.id, {**GPU_POOL, "minCount": 1})
    assert the_pool(store).count == 1


def test_evicted_nodes_take_their_pods_with_them(store: Store, api: Api) -> None:
    nodes.scale(store, the_pool(store), 2)
    api.pods = [pod("rank-0", 4, on="node"), pod("cpu", 0, on="node"), pod("rank-1", 4)]
    assert evict(store, the_pool(store).record.id) == ["rank-0"]
    assert api.deleted == ["rank-0"]
    assert the_pool(store).count == 0


def test_only_spot_nodes_are_evicted(store: Store) -> None:
    [other] = [each for each in store.all() if each.type != POOL and "managed" in each.id]
    with pytest.raises(LookupError, match="no spot pool"):
        evict(store, other.id)


def test_a_removed_pool_leaves_no_mark_on_the_node(
    double: AzureDouble, store: Store, api: Api
) -> None:
    nodes.scale(store, the_pool(store), 1)
    api.patches.clear()
    double.remove(the_pool(store).record.id)
    assert api.patches[0]["metadata"]["labels"]["pool"] is None
    assert list(pools(store)) == []


def test_a_pod_fits_where_it_tolerates_every_taint() -> None:
    pool = Pool(Record("/p/gpu", POOL, GPU_POOL), GPU_POOL)
    assert fits(pod("a", 1), pool)
    assert not fits(pod("a", 1, tolerated=[SPOT]), pool)
