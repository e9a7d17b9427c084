"""What the settings of an AKS cluster take, and what jobs and the price need to know of them."""

from typing import Any

import pytest

from clusters.aks.settings import AksSettings, gpus, pools
from clusters.nodes import Taint
from core.validation import check

TAINTS = (Taint("sku", "gpu"), Taint("kubernetes.azure.com/scalesetpriority", "spot"))
ME = "11111111-2222-3333-4444-555555555555"
PLAIN: dict[str, Any] = {
    "subscription": ME,
    "location": "westeurope",
    "api": {"authorizedRanges": ["198.51.100.0/24"]},
    "admins": {"users": [ME]},
    "budget": {"amount": 50, "emails": ["you@example.org"]},
}


def settings(**said: Any) -> AksSettings:
    found = check(AksSettings, {**PLAIN, **said}, "slipway:cluster", base={"name": "azure"})
    assert isinstance(found, AksSettings), list(map(str, found))
    return found


def test_a_name_that_azure_reserves_gets_a_prefix_and_any_other_stays_as_it_was() -> None:
    for name in ("azure", "office", "login-a"):
        assert settings(name=name).resource_name == f"slipway-{name}"
    assert settings(name="a").resource_name == "a"


def test_reserved_names_that_no_prefix_makes_right_are_refused_at_once() -> None:
    names = {"name": "my-windows", "registry": {"name": "Office"}}
    document = {**PLAIN, **names, "storage": {"name": "microsoftdata"}}
    found = check(AksSettings, document, "cluster", base={"name": "azure"})
    assert isinstance(found, list)
    keys = ("name", "registry.name", "storage.name")
    assert {each.key for each in found} == {f"cluster.{key}" for key in keys}


@pytest.mark.parametrize("name", ["a", "a-very-long-name-for-a-cluster-of-nobody"])
def test_names_that_all_of_azure_shares_are_the_clusters_own_and_ones_that_it_takes(
    name: str,
) -> None:
    one, other = settings(name=name), settings(name=name, subscription=ME.replace("1", "9"))
    assert one.registry_name != other.registry_name
    assert one.storage_name != other.storage_name
    said = settings(registry={"name": one.registry_name}, storage={"name": one.storage_name})
    assert said.registry_name == one.registry_name == settings(name=name).registry_name


SPOT = {"slipway-pool": "gpu", "kubernetes.azure.com/scalesetpriority": "spot"}
FALLBACK = {"size": "Standard_NC8as_T4_v3", "maxNodes": 2}


@pytest.mark.parametrize(
    ("gpu", "amounts", "labels", "plugin"),
    [
        ({"size": "Standard_NC64as_T4_v3", "spot": {}}, (4, 0, 3), SPOT, True),
        ({"driver": "gpu-operator", "spot": {}}, (1, 0, 3), SPOT, False),
        # Spot nodes and those that take over are one: labels that both have, taints of either.
        (
            {"labels": {"a": "b"}, "spot": {"fallback": FALLBACK}},
            (1, 0, 5),
            {"slipway-pool": "gpu", "a": "b"},
            True,
        ),
    ],
)
def test_jobs_know_the_pool_by_what_its_nodes_have(
    gpu: dict[str, Any], amounts: tuple[int, ...], labels: dict[str, str], plugin: bool
) -> None:
    pool = gpus(settings(gpu={"maxNodes": 3, **gpu}))
    assert pool is not None
    assert (pool.per_node, pool.min_nodes, pool.max_nodes) == amounts
    assert (pool.labels, pool.taints, pool.interface) == (labels, TAINTS, "eth0")
    assert pool.device_plugin is plugin


def test_every_pool_is_paid_for() -> None:
    found = pools(settings(cpu={}, gpu={"spot": {}, "maxNodes": 5}))
    told = [(each.name, each.min_nodes, each.max_nodes, each.gpus, each.spot) for each in found]
    assert told == [("system", 1, 3, 0, False), ("cpu", 1, 4, 0, False), ("gpu", 0, 5, 1, True)]
    found = pools(settings(gpu={"spot": {"fallback": {"maxNodes": 1}}}))
    both = [(each.name, each.max_nodes, each.spot) for each in found]
    assert both == [("system", 3, False), ("gpu", 2, True), ("gpufallback", 1, False)]
    assert {(pool.provider, pool.region) for pool in found} == {("azure", "westeurope")}


def test_nodes_without_their_infiniband_say_so_where_there_may_be_several() -> None:
    fast = {"size": "Standard_ND96isr_H200_v5"}
    assert pools(settings(gpu=fast))[1].network.startswith("TCP only: at most 80 Gbit/s")
    assert [pool.network for pool in pools(settings(gpu={**fast, "maxNodes": 1}))] == ["", ""]


def test_what_is_named_twice_counts_once() -> None:
    found = settings(admins={"users": [ME, ME]}, gpu={"zones": ["3", "1", "3"]})
    assert found.admins.users == (ME,)
    assert found.gpu
    assert found.gpu.zones == ("3", "1")
