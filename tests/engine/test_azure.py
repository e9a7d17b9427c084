"""`pulumi up` on Azure the whole way: on the tests' double of it, with a real cluster behind it.

Its one node acts for every pool, and nvidia.com/gpu on it is a number for scheduling. The tests run
in order, since the cluster has room for one stack: that on Azure Local goes before the other comes.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.azure_native.arm import Arm, serving
from tests.doubles.azure_native.nodes import RESOURCE, evict, scale
from tests.doubles.azure_native.pools import pools
from tests.doubles.azure_native.store import Record, Store
from tests.engine.awaiting import COMMAND_SECONDS, await_true
from tests.engine.azure_stack import AzureStack, images, let_pull, own
from tests.engine.cli_stack import Outcome
from tests.engine.embedded_cluster import TestCluster, bring_in_trainer
from tests.trainer.registry import running

JOB = "mnist-gloo"
SHORT = {"args": ["--limit-train", "3000", "--limit-test", "500"], "minAccuracy": 0.1}
"""For a job whose training does not matter."""
LOCKED = """
import pulumi
from core.paths import use_extra

use_extra("azure")
from clusters.aks.settings import AksSettings
from clusters.azure.resources import AzureCluster
from core.validation import check

document = pulumi.Config("slipway").require_object("cluster")
settings = check(AksSettings, document, "slipway:cluster", base={"name": "azure"})
azure = AzureCluster("slipway:clusters:Aks", settings)
if settings.production:
    azure.lock(azure.group[0].id)
"""
"""A group of resources with the lock of a production stack."""
CLUSTER = """
from clusters.aks import nodes

subnet = nodes.subnet_of(azure, settings.network)
cluster = nodes.managed_cluster(azure, settings, subnet, "its identity", after=azure.group[0])
[*nodes.agent_pools(azure, settings, cluster, subnet)]
"""
"""Goes on with a cluster in that group."""


@pytest.fixture(scope="module")
def trainer(cluster: TestCluster) -> str:
    """The trainer's image on its node."""
    return bring_in_trainer(cluster)


@pytest.fixture(scope="module")
def created(
    cluster: TestCluster, trainer: str, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AzureStack, Outcome]]:
    """The stack `azure` with values of its own, and a job of two ranks on two nodes with GPUs.

    It is up, though its cluster answered before it knew of the person's role.
    """
    settings = own("azure", name="azure", images=images(trainer))
    settings["gpu"] = {**settings["gpu"], "spot": {"fallback": {"maxNodes": 2}}}
    jobs = {JOB: {"workers": 1, "gpus": 1, "retries": 2, **SHORT}}
    stack = AzureStack(tmp_path_factory.mktemp("stack"), root, cluster, settings, jobs)
    stack.azure.late_roles.write_text("1")
    try:
        yield stack, stack.bring_up()
    finally:
        if stack.resources:
            stack.destroy()


@pytest.fixture
def aks(created: tuple[AzureStack, Outcome]) -> AzureStack:
    return created[0]


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[Arm]:
    """Azure's resource manager for that stack."""
    with serving(Arm(Store(tmp_path / "stack/azure"))) as made:
        yield made


@pytest.fixture
def on_azure_local(
    cluster: TestCluster,
    arm: Arm,
    trainer: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[AzureStack]:
    """The stack `azure-stack`, with a private registry that wants a login."""
    (tmp_path / "stack").mkdir()
    monkeypatch.setenv("ARM_METADATA_HOSTNAME", arm.url)
    with running(tmp_path) as registry:
        server = f"{registry.server}/slipway"
        let_pull(cluster, server)
        ours = {"server": server, "credentials": str(registry.credentials)}
        trainers = {"trainer": trainer, "trainerCuda": trainer}
        settings = own("azure-stack", name="local", registry=ours, images=trainers)
        jobs = {JOB: {"workers": 1, **SHORT}}
        stack = AzureStack(tmp_path / "stack", root, cluster, settings, jobs)
        # It was there before the cluster.
        kind = "azure-native:extendedlocation:CustomLocation"
        stack.azure.put(Record(settings["customLocation"], kind, {}))
        yield stack
        if stack.resources:
            stack.destroy()


def node(cluster: TestCluster) -> dict[str, Any]:
    """Return the node's label of the pool, its taints, and the GPUs that it offers."""
    [found] = cluster.get("nodes")["items"]
    return {
        "pool": found["metadata"]["labels"].get("slipway.dev/pool"),
        "taints": [taint["key"] for taint in found["spec"].get("taints", [])],
        "gpus": found["status"]["allocatable"].get(RESOURCE),
    }


AS_IT_WAS: dict[str, Any] = {"pool": None, "taints": [], "gpus": None}


def scalings(stack: AzureStack, pool: str) -> list[tuple[float, int]]:
    """Return when a pool was scaled, and to how many nodes, in order."""
    return [
        (call["at"], call["nodes"])
        for call in stack.azure.calls
        if call["action"] == "scale" and call["id"].endswith(f"/agentPools/{pool}")
    ]


def scaled(stack: AzureStack, pool: str = "gpu") -> list[int]:
    """Return how many nodes a pool has had, in order."""
    return [nodes for _, nodes in scalings(stack, pool)]


def node_seconds(stack: AzureStack, since: float) -> float:
    """Return for how long each node with GPUs has been there since a time, all of them together."""
    total = 0.0
    for pool in ("gpu", "gpufallback"):
        changes = [(max(at, since), nodes) for at, nodes in scalings(stack, pool)]
        ends = [at for at, _ in changes[1:]] + [time.time()]
        total += sum(
            nodes * (end - begin) for (begin, nodes), end in zip(changes, ends, strict=True)
        )
    return total


@pytest.mark.long
def test_on_azure_local_from_nothing_to_a_job_that_succeeded_and_back(
    on_azure_local: AzureStack, cluster: TestCluster, arm: Arm
) -> None:
    stack = on_azure_local
    stack.azure.late_roles.write_text("1")
    stack.bring_up()
    assert stack.azure.late_roles.read_text() == "0"
    result = stack.result(JOB)
    assert (result["state"], result["world_size"]) == ("Succeeded", 2), result
    assert node(cluster)["gpus"] == "1"
    assert stack.in_azure("LogicalNetwork") == ["local-nodes"]
    assert stack.in_azure("ConnectedCluster") == ["local"]
    assert sorted(stack.in_azure("Resource")) == ["default", "gpu"]
    pulled = {
        each["image"]
        for pod in cluster.get("pods", "--namespace=kubeflow")["items"]
        for each in pod["spec"]["containers"]
    }
    [kubeconfig] = [each for each in stack.resources if "LocalKubeconfig" in each["type"]]
    assert "token" not in kubeconfig["inputs"].keys() | kubeconfig["outputs"].keys()
    assert pulled
    assert all(image.startswith("127.0.0.1:") for image in pulled)

    stack.settings["gpu"] = {**stack.settings["gpu"], "maxNodes": 3}
    changed = stack.bring_up()
    # All else is as it was, and it is no reason to train again.
    assert changed.changes == {"update": 2}, changed.urns("update", "replace", "create")
    assert changed.diff("local-gpu") == {"properties.maxCount": "update"}
    # Each time, as it may be another by then.
    assert sum(each.startswith("POST ") for each in arm.asked) == 2
    assert changed.diff("gpus") == {"pool.maxNodes": "update"}

    stack.destroy()
    assert stack.in_azure("Resource") == []
    assert node(cluster) == AS_IT_WAS


@pytest.mark.long
def test_a_production_stack_goes_the_documented_way_down(root: Path, tmp_path: Path) -> None:
    """Also one with a lock that an older version protected: the lock goes first."""
    settings = own("azure", production=True)
    del settings["kind"]
    (tmp_path / "stack").mkdir()
    stack = AzureStack(tmp_path / "stack", root, None, settings, {}, LOCKED)
    stack.bring_up()
    assert stack.in_azure("ManagementLockByScope") == ["slipway-production"]
    # As an earlier version made it, and as docs/azure.md has the way out of that.
    [lock] = [each["urn"] for each in stack.resources if "ManagementLock" in each["type"]]
    protected = stack.pulumi("state", "protect", lock, "--stack", "test", "--yes")
    assert protected.code == 0, protected
    stack.settings["production"] = False
    stack.declare()
    assert "protected" in stack.refused("up")
    stack.settings["production"] = True
    stack.bring_up()
    # Pulumi keeps all that the lock is for.
    assert "protected" in stack.refused("destroy")
    stack.settings["production"] = False
    stack.bring_up()
    assert stack.in_azure("ManagementLockByScope") == []
    stack.destroy()
    assert list(stack.azure.all()) == []


def test_what_azure_deletes_with_a_cluster_comes_back_with_the_next(
    root: Path, tmp_path: Path
) -> None:
    settings = own("azure", gpu=False, cpu={})
    del settings["kind"]
    (tmp_path / "stack").mkdir()
    stack = AzureStack(tmp_path / "stack", root, None, settings, {}, LOCKED + CLUSTER)
    stack.bring_up()
    stack.settings["network"] = {"pods": "10.9.0.0/16"}
    replaced = {urn.rpartition(":")[2] for urn in stack.bring_up().urns("create-replacement")}
    assert replaced == {"azure", "azure-cpu", "azure-node-images"}
    assert stack.in_azure("AgentPool") == ["cpu"]
    assert len(stack.in_azure("MaintenanceConfiguration")) == 1
    there = {record.id for record in stack.azure.all()}
    stack.settings["network"] = {"pods": "10.9.0.0/16", "nodes": "10.40.64.0/20"}
    stack.declare()
    assert "can't change network.subnet" in stack.refused("up")
    assert {record.id for record in stack.azure.all()} == there
    stack.destroy()


def test_from_nothing_to_a_job_that_succeeded(created: tuple[AzureStack, Outcome]) -> None:
    aks, said = created
    assert aks.azure.late_roles.read_text() == "0"
    result = aks.result(JOB)
    assert (result["state"], result["world_size"]) == ("Succeeded", 2), result
    assert "this is the tests' double of azure-native's plugin" in said.text
    kinds = ("ResourceGroup", "VirtualNetwork", "ManagedCluster", "Registry", "StorageAccount")
    assert all(aks.in_azure(kind) for kind in kinds)
    # One node with a GPU for each of two ranks, from none, and however soon the second asks.
    assert scaled(aks)[0] == 0
    assert max(scaled(aks)) == 2
    # No regular node is paid for while spot ones can be had.
    assert set(scaled(aks, "gpufallback")) == {0}
    assert aks.output("cuda")["state"] == "unverified"
    # It was reached as the person who is logged in, and not as an administrator.
    listed = [call for call in aks.azure.calls if call["action"] == "list credentials"]
    assert {call["format"] for call in listed} == {"exec"}
    assert set((aks.azure.directory / "logins").read_text().split()) == {"azurecli"}


def test_nodes_that_no_job_needs_are_given_back(aks: AzureStack, cluster: TestCluster) -> None:
    # The autoscaler has gone on with any command that had the plugin running.
    if node(cluster) != AS_IT_WAS:
        [spot] = [each for each in pools(aks.azure) if each.is_spot]
        scale(aks.azure, spot, 0)
    assert node(cluster) == AS_IT_WAS


@pytest.mark.long
def test_a_job_goes_on_with_regular_nodes_when_azure_takes_its_spot_nodes_back(
    aks: AzureStack, cluster: TestCluster
) -> None:
    """A training costs what the preview of its change says, within the stated error."""
    # With so many samples that it still trains when they are taken.
    aks.jobs[JOB] = {**aks.jobs[JOB], "args": ["--limit-train", "15000", "--limit-test", "500"]}
    began = time.time()
    aks.declare()
    with aks.going_up() as up:
        await_true(lambda: ranks(cluster) == 2, COMMAND_SECONDS, lambda: aks.log)
        before = len(scaled(aks))
        aks.azure.without_spot.touch()
        [pool] = [each for each in aks.azure.all() if each.id.endswith("/agentPools/gpu")]
        assert len(evict(aks.azure, pool.id)) == 2
        assert up.wait(COMMAND_SECONDS) == 0, aks.log
    assert aks.result(JOB)["state"] == "Succeeded"
    assert scaled(aks)[before:] == [0]
    # However soon each rank is there again, and asks for a node.
    assert max(scaled(aks, "gpufallback")) == 2
    # By the time that fewer samples took, with the error that docs/costs.md states.
    told = re.search(r"costs USD ([\d.]+) to ([\d.]+) \(2 nodes at ([\d.]+) an hour\), if", aks.log)
    assert told, aks.log
    least, most, hourly = map(float, told.groups())
    assert least <= round(node_seconds(aks, began) * hourly / 3600, 2) <= most


def test_destroy_leaves_nothing_in_azure_and_nothing_in_the_cluster(
    aks: AzureStack, cluster: TestCluster
) -> None:
    aks.destroy()
    assert list(aks.azure.all()) == []
    assert node(cluster) == AS_IT_WAS
    names = {each["metadata"]["name"] for each in cluster.get("namespaces")["items"]}
    assert names == {"default", "kube-node-lease", "kube-public", "kube-system"}


def ranks(cluster: TestCluster) -> int:
    """Return how many ranks run."""
    listed = cluster.get("pods", "--all-namespaces", "--selector=slipway.dev/job")["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in listed)
