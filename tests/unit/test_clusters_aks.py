"""What the settings of an AKS cluster take, what is told of them beforehand, and its kubeconfig."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import CLUSTERS, aks
from clusters.azure import kubeconfig, names, remains
from clusters.azure.settings import Settings
from clusters.pools import Taint
from core.validation import check

ME = "11111111-2222-3333-4444-555555555555"
PLAIN: dict[str, Any] = {
    "subscription": ME,
    "location": "westeurope",
    "api": {"authorizedRanges": ["198.51.100.0/24"]},
    "admins": {"users": [ME]},
    "budget": {"amount": 50, "emails": ["you@example.org"]},
}


def settings(**said: Any) -> Settings:
    found = check(Settings, {**PLAIN, **said}, "slipway:cluster", base={"name": "azure"})
    assert isinstance(found, Settings), list(map(str, found))
    return found


def refused(**said: Any) -> list[str]:
    document = {key: value for key, value in {**PLAIN, **said}.items() if value is not None}
    found = check(Settings, document, "slipway:cluster", base={"name": "azure"})
    assert isinstance(found, list), "these settings are taken"
    return list(map(str, found))


def test_the_stack_names_its_cluster() -> None:
    assert settings().name == "azure"
    assert names.resource_group(settings()) == "slipway-azure"
    assert names.node_group(settings()) == "slipway-azure-nodes"


def test_every_missing_value_is_told_at_once() -> None:
    told = check(Settings, {}, "slipway:cluster", base={"name": "azure"})
    assert isinstance(told, list)
    assert {each.key.removeprefix("slipway:cluster.") for each in told} == {
        "subscription",
        "location",
        "api",
        "admins",
        "budget",
    }


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"api": {}}, "slipway:cluster.api: takes exactly one of authorizedRanges and private"),
        (
            {"api": {"private": True, "authorizedRanges": ["198.51.100.0/24"]}},
            "slipway:cluster.api: takes exactly one of",
        ),
        (
            {"api": {"authorizedRanges": ["0.0.0.0/0"]}},
            'slipway:cluster.api.authorizedRanges[0]: "0.0.0.0/0" is far too many',
        ),
        (
            {"api": {"authorizedRanges": ["198.51.100.1/24"]}},
            'slipway:cluster.api.authorizedRanges[0]: "198.51.100.1/24" is no network',
        ),
        (
            {"api": {"authorizedRanges": ["10.1.0.0/16"]}},
            'slipway:cluster.api.authorizedRanges[0]: "10.1.0.0/16" is no public address',
        ),
        ({"admins": {}}, "slipway:cluster.admins: names nobody"),
        (
            {"network": {"pods": "10.40.0.0/16"}},
            "slipway:cluster.network.pods: 10.40.0.0/16 overlaps addresses, 10.40.0.0/16",
        ),
        (
            {"network": {"nodes": "10.50.0.0/20"}},
            "slipway:cluster.network.nodes: 10.50.0.0/20 is not inside of 10.40.0.0/16",
        ),
        (
            {"system": {"minNodes": 0}},
            "slipway:cluster.system.minNodes: 0 is not allowed; it takes a whole number from 1",
        ),
        (
            {"system": {"spot": {}}},
            "slipway:cluster.system.spot: there is no such key",
        ),
        (
            {"system": {"minNodes": 4, "maxNodes": 2}},
            "slipway:cluster.system.minNodes: 4 is more than maxNodes, 2",
        ),
        (
            {"cpu": {"size": "Standard_NC4as_T4_v3"}},
            'slipway:cluster.cpu.size: "Standard_NC4as_T4_v3" has GPUs',
        ),
        (
            {"gpu": {"minNodes": 3}},
            "slipway:cluster.gpu.minNodes: 3 is more than maxNodes, 2",
        ),
        (
            {"gpu": {"size": "Standard_NC999_v9"}},
            "slipway:cluster.gpu.gpusPerNode: has to be said",
        ),
        (
            {"gpu": {"size": "Standard_NC64as_T4_v3", "gpusPerNode": 2}},
            "slipway:cluster.gpu.gpusPerNode: 2 is not so: Standard_NC64as_T4_v3 has 4",
        ),
        (
            {"gpu": {"size": "Standard_NV6ads_A10_v5"}},
            'slipway:cluster.gpu.size: "Standard_NV6ads_A10_v5" has a part of a GPU',
        ),
        (
            {"gpu": {"spot": {"maxPrice": 0}}},
            "slipway:cluster.gpu.spot.maxPrice: 0 is not allowed; it takes -1, or a number above 0",
        ),
        (
            {"gpu": {"spot": {"evictionPolicy": "Stop"}}},
            'slipway:cluster.gpu.spot.evictionPolicy: "Stop" is not allowed; it takes one of Del',
        ),
        (
            {"gpu": {"driver": "both"}},
            'slipway:cluster.gpu.driver: "both" is not allowed; it takes one of aks, gpu-operator',
        ),
        ({"gpu": {"taints": []}}, "slipway:cluster.gpu.taints: need one with the effect NoSched"),
        (
            {"gpu": {"labels": {"kubernetes.azure.com/x": "y"}}},
            'slipway:cluster.gpu.labels["kubernetes.azure.com/x"]: is reserved',
        ),
        (
            {"budget": {"amount": 0, "emails": ["you@example.org"]}},
            "slipway:cluster.budget.amount: 0 is not allowed; it takes a number above 0",
        ),
        ({"budget": {"amount": 10, "emails": []}}, "slipway:cluster.budget.emails: [] is not allo"),
        (
            {"registry": {"name": "my-registry"}},
            'slipway:cluster.registry.name: "my-registry" is not allowed; it takes 5 to 50 letters',
        ),
        (
            {"storage": {"name": "Mine"}},
            'slipway:cluster.storage.name: "Mine" is not allowed; it takes 3 to 24 of a-z and 0-9',
        ),
        ({"subscription": "mine"}, 'slipway:cluster.subscription: "mine" is not allowed'),
        ({"location": "West Europe"}, 'slipway:cluster.location: "West Europe" is not allowed'),
        (
            {"images": {"trainer": "trainer"}},
            'slipway:cluster.images.trainer: "trainer" is not allowed; it takes an image',
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_what_is_allowed(
    said: dict[str, Any], told: str
) -> None:
    found = refused(**said)
    assert len(found) == 1, found
    assert found[0].startswith(told), found[0]


def test_contradictions_are_told_beside_wrong_values() -> None:
    found = refused(idleMinutes=0, admins={}, gpu={"minNodes": 3})
    assert {each.split(":")[1] for each in found} == {
        "cluster.idleMinutes",
        "cluster.admins",
        "cluster.gpu.minNodes",
    }


def test_names_that_all_of_azure_shares_are_the_clusters_own() -> None:
    one, other = settings(), settings(subscription=ME.replace("1", "9"))
    assert names.registry(one) == names.registry(settings())
    assert names.registry(one) != names.registry(other)
    assert names.storage(one) != names.storage(other)


@pytest.mark.parametrize("name", ["a", "a-very-long-name-for-a-cluster-of-nobody"])
def test_names_that_are_made_up_are_ones_that_azure_takes(name: str) -> None:
    wanted = settings(name=name)
    said = settings(
        registry={"name": names.registry(wanted)}, storage={"name": names.storage(wanted)}
    )
    assert names.registry(said) == names.registry(wanted)


def test_jobs_know_the_pool_by_what_its_nodes_have() -> None:
    pool = aks.gpus(settings(gpu={"size": "Standard_NC64as_T4_v3", "maxNodes": 3, "spot": {}}))
    assert pool is not None
    assert (pool.per_node, pool.min_nodes, pool.max_nodes) == (4, 0, 3)
    assert pool.labels == {
        "slipway-pool": "gpu",
        "kubernetes.azure.com/scalesetpriority": "spot",
    }
    assert pool.taints == (
        Taint("sku", "gpu"),
        Taint("kubernetes.azure.com/scalesetpriority", "spot"),
    )
    assert pool.interface == "eth0"


@pytest.mark.parametrize(("driver", "plugin"), [("aks", True), ("gpu-operator", False)])
def test_slipway_installs_the_device_plugin_unless_the_gpu_operator_brings_it(
    driver: str, plugin: bool
) -> None:
    pool = aks.gpus(settings(gpu={"driver": driver}))
    assert pool is not None
    assert pool.device_plugin is plugin


def test_a_cluster_can_be_without_gpus() -> None:
    wanted = settings(gpu=False)
    assert aks.gpus(wanted) is None
    assert [pool.name for pool in aks.pools(wanted)] == ["system"]


def test_every_pool_is_paid_for() -> None:
    found = aks.pools(settings(cpu={}, gpu={"spot": {}, "maxNodes": 5}))
    assert [(pool.name, pool.min_nodes, pool.max_nodes, pool.gpus) for pool in found] == [
        ("system", 1, 3, 0),
        ("cpu", 1, 4, 0),
        ("gpu", 0, 5, 1),
    ]
    assert [pool.spot for pool in found] == [False, False, True]
    assert {(pool.provider, pool.region) for pool in found} == {("azure", "westeurope")}


def test_reading_settings_does_not_load_azures_sdk(root: Path) -> None:
    code = (
        "import sys; from clusters import CLUSTERS; CLUSTERS['aks'].settings.load(); "
        "print([name for name in sys.modules if name.startswith('pulumi_azure')])"
    )
    command = [sys.executable, "-c", code]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout.strip()) == (0, "[]"), finished.stderr
    assert CLUSTERS["aks"].settings.load() is Settings


def handed_out(**user: Any) -> str:
    args = ["get-token", "--environment", "AzurePublicCloud", "--server-id", "the-server"]
    args += ["--client-id", "a-client", "--tenant-id", "a-tenant", "--login", "devicecode"]
    plugin = {"apiVersion": "v1beta1", "command": "kubelogin", "args": args}
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://c.example.org"}}],
            "users": [{"name": "u", "user": {"exec": plugin, **user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
    )


def login(text: str) -> dict[str, Any]:
    (user,) = yaml.safe_load(text)["users"]
    assert user["user"].keys() == {"exec"}
    found: dict[str, Any] = user["user"]["exec"]
    return found


def test_kubelogin_uses_the_persons_own_login() -> None:
    made = kubeconfig.logging_in(handed_out(), "azurecli")
    assert login(made)["args"] == ["get-token", "--login", "azurecli", "--server-id", "the-server"]
    assert yaml.safe_load(made)["clusters"] == yaml.safe_load(handed_out())["clusters"]


def test_nobody_is_asked_for_a_code() -> None:
    made = login(kubeconfig.logging_in(handed_out(), "azurecli"))
    assert "devicecode" not in made["args"]
    assert made["interactiveMode"] == "Never"
    assert "az login" in made["installHint"]


def test_a_pipelines_service_principal_is_asked_for_in_its_tenant() -> None:
    args = login(kubeconfig.logging_in(handed_out(), "spn"))["args"]
    assert args[args.index("--tenant-id") + 1] == "a-tenant"
    # It and its secret are in the pipeline's environment; AKS's own client is another.
    assert "--client-id" not in args


def test_an_administrators_certificate_is_never_passed_on() -> None:
    with pytest.raises(kubeconfig.KubeconfigError, match="client-key-data") as refusal:
        kubeconfig.logging_in(handed_out(**{"client-key-data": "Zm9v"}), "azurecli")
    assert "Zm9v" not in str(refusal.value)
    assert "adminKubeconfig" in str(refusal.value)


def az(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "az"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_resource_group_that_is_left_is_named_with_what_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    az(
        tmp_path,
        'case "$*" in *slipway-azure-nodes*) echo true;; *) echo false;; esac',
        monkeypatch,
    )
    found = remains.remains(settings())
    remedy = f"az group delete --name slipway-azure-nodes --subscription {ME}"
    assert found == {"resource groups": [f"resource group slipway-azure-nodes: {remedy}"]}


def test_nothing_is_claimed_of_azure_when_it_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    az(tmp_path, "echo log in first >&2; exit 1", monkeypatch)
    ((kind, found),) = remains.remains(settings()).items()
    assert kind.startswith("resource groups known to be left (Azure was not asked: `")
    assert "log in first" in kind
    assert found == []
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    (kind,) = remains.remains(settings())
    assert "`az` is not installed" in kind
