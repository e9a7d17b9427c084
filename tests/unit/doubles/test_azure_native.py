"""The tests' double of azure-native's plugin, without an engine."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pulumi.provider.experimental import provider as protocol
from pulumi.runtime.proto import engine_pb2_grpc

from infra.provider.engine import plain_map, wrap_map
from scripts.azure_requests import HIDDEN, requests
from tests.doubles.azure_native.credentials import list_credentials
from tests.doubles.azure_native.provider import AzureDouble, change_in_portal
from tests.doubles.azure_native.resources import Unserved
from tests.doubles.azure_native.store import VARIABLE, Refused
from tests.unit.scripts.test_azure_requests import call

SUBSCRIPTION = "11111111-1111-4111-8111-111111111111"
CLUSTER = "azure-native:containerservice:ManagedCluster"
GROUP = "azure-native:resources:ResourceGroup"
IDENTITY = "azure-native:managedidentity:UserAssignedIdentity"
POOL = "azure-native:containerservice:AgentPool"
IN_GROUP = {"resourceGroupName": "slipway", "resourceName": "slipway"}


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AzureDouble:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    made = AzureDouble(cast(engine_pb2_grpc.EngineStub, None))
    made.subscription = SUBSCRIPTION
    return made


def cluster(double: AzureDouble, **inputs: Any) -> str:
    """Create a cluster in its group and return its ID."""
    double.make(GROUP, {"resourceGroupName": "slipway"})
    return double.make(CLUSTER, {**IN_GROUP, "location": "westeurope", **inputs}).id


def read(double: AzureDouble, resource_id: str, **inputs: Any) -> tuple[Any, Any]:
    """Return the inputs and outputs that a refresh gets."""
    urn = f"urn:pulumi:a::slipway::{CLUSTER}::slipway"
    request = protocol.ReadRequest(urn, resource_id, {}, wrap_map(inputs))
    found = asyncio.run(double.read(request))
    assert found.inputs is not None
    assert found.properties is not None
    return plain_map(found.inputs), plain_map(found.properties)


def test_what_azure_once_answered_is_answered_again_for_that_type_and_name(
    double: AzureDouble,
) -> None:
    """By a report as scripts/azure-acceptance writes it; what that hides is made up."""
    urn = f"urn:pulumi:a::slipway::slipway:clusters:Aks${IDENTITY}::azure-jobs"
    answered = {"principalId": "from Azure", "password": "a secret", "isolationScope": "None"}
    lines = [
        call("Create", {"urn": urn, "properties": {}}, errors=["Code=Conflict: try again"]),
        call("Create", {"urn": urn, "properties": {}}, {"id": "/x", "properties": answered}),
        call("Read", {"urn": urn}, {"inputs": {"location": "elsewhere"}, "properties": {"a": 1}}),
        call("Delete", {"urn": urn, "id": "/x"}, errors=["Code=ScopeLocked"]),
    ]
    report = {"requests": [*requests(lines, "up")]}
    assert HIDDEN in json.dumps(report)
    (double.store.directory / "report.json").write_text(json.dumps(report))
    double.make(GROUP, {"resourceGroupName": "slipway"})
    with pytest.raises(Refused, match="Conflict: try again"):
        double.make(IDENTITY, {**IN_GROUP, "resourceName": "azure-jobs"}, "azure-jobs")
    made, other_one = (
        double.make(IDENTITY, {**IN_GROUP, "resourceName": name}, name)
        for name in ("azure-jobs", "azure-control")
    )
    replayed, other = made.outputs, other_one.outputs
    request = protocol.ReadRequest(urn, made.id, {}, {})
    refreshed = asyncio.run(double.read(request))
    assert plain_map(refreshed.inputs or {}) == {"location": "elsewhere"}
    assert plain_map(refreshed.properties or {})["a"] == 1
    with pytest.raises(Refused, match="ScopeLocked"):
        double.remove(made.id, "azure-jobs")
    assert replayed["principalId"] == "from Azure"
    assert replayed["isolationScope"] == "None"
    assert HIDDEN not in str(replayed)
    assert "isolationScope" not in other
    assert replayed.keys() > other.keys()


def test_a_resource_is_created_read_and_removed(double: AzureDouble) -> None:
    record = double.make(GROUP, {"resourceGroupName": "slipway", "location": "westeurope"})
    assert record.id == f"/subscriptions/{SUBSCRIPTION}/resourceGroups/slipway"
    # What the program leaves to Azure is none of its inputs.
    inputs, outputs = read(double, record.id, location="northeurope")
    assert inputs == {"location": "westeurope"}
    assert outputs["name"] == "slipway"
    double.remove(record.id)
    double.remove(record.id)
    assert read(double, record.id) == ({}, {})


def test_a_clusters_identities_go_in_as_a_list_and_come_back_as_a_map(double: AzureDouble) -> None:
    identity = {"type": "UserAssigned", "userAssignedIdentities": ["/one"]}
    record = double.store.get(cluster(double, identity=identity))
    assert record.outputs["identity"]["userAssignedIdentities"].keys() == {"/one"}
    assert record.outputs["oidcIssuerProfile"]["issuerURL"].startswith("https://westeurope.")


def test_what_exists_is_not_created_again(double: AzureDouble) -> None:
    cluster(double)
    with pytest.raises(Refused, match="cannot create already existing resource"):
        double.make(GROUP, {"resourceGroupName": "Slipway"})


@pytest.mark.parametrize("name", ["azure", "Azure", "login-1", "my-windows"])
def test_a_reserved_name_is_refused_for_what_has_an_address(double: AzureDouble, name: str) -> None:
    double.make(GROUP, {"resourceGroupName": "azure"})
    inputs = {"resourceGroupName": "azure", "resourceName": name, "location": "westeurope"}
    with pytest.raises(Refused, match="ReservedResourceName"):
        double.make(CLUSTER, inputs)


def test_while_roles_are_late_a_cluster_whose_nodes_have_an_identity_of_ones_own_is_refused(
    double: AzureDouble,
) -> None:
    double.store.late_roles.write_text("1")
    nodes = {"kubeletidentity": {"resourceId": "/nodes"}}
    with pytest.raises(Refused, match="CustomKubeletIdentityMissingPermissionError"):
        cluster(double, identityProfile=nodes)
    double.make(CLUSTER, {**IN_GROUP, "location": "westeurope"})


def test_nothing_is_created_in_what_does_not_exist(double: AzureDouble) -> None:
    with pytest.raises(Refused, match="ResourceGroupNotFound"):
        double.make(CLUSTER, {**IN_GROUP, "location": "westeurope"})
    pool = {**IN_GROUP, "agentPoolName": "cpu", "vmSize": "Standard_D4s_v5"}
    double.make(GROUP, {"resourceGroupName": "slipway"})
    with pytest.raises(Refused, match="ParentResourceNotFound"):
        double.make(POOL, pool)


def test_a_storage_account_has_its_blob_service_from_the_start(double: AzureDouble) -> None:
    double.make(GROUP, {"resourceGroupName": "slipway"})
    account = {"resourceGroupName": "slipway", "accountName": "ours"}
    made = double.make("azure-native:storage:StorageAccount", account)
    blobs = {"resourceUri": f"{made.id}/blobServices/default", "name": "slipway"}
    double.make("azure-native:monitor:DiagnosticSetting", blobs)
    double.make("azure-native:storage:BlobContainer", {**account, "containerName": "data"})


def test_a_refresh_gets_what_was_changed_in_the_portal(double: AzureDouble) -> None:
    resource_id = cluster(double)
    change_in_portal(double.store, resource_id, kubernetesVersion="1.99")
    inputs, outputs = read(double, resource_id, location="westeurope", kubernetesVersion="1.34")
    assert inputs["kubernetesVersion"] == outputs["kubernetesVersion"] == "1.99"


def test_a_type_or_a_function_that_is_not_served_is_refused_by_name(double: AzureDouble) -> None:
    with pytest.raises(Unserved, match="double of azure-native does not serve azure-native:sql:S"):
        double.make("azure-native:sql:Server", {})
    with pytest.raises(Unserved, match="the function azure-native:sql:getServer"):
        list_credentials(double.store, SUBSCRIPTION, "azure-native:sql:getServer", {})


def test_the_kubeconfig_of_a_cluster_has_a_login_and_no_secret(double: AzureDouble) -> None:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"client-key-data": "a secret"}}],
    }
    double.store.kubeconfig.write_text(yaml.safe_dump(document))
    function = "azure-native:containerservice:listManagedClusterUserCredentials"

    def listed(**arguments: str) -> Any:
        return list_credentials(double.store, SUBSCRIPTION, function, {**IN_GROUP, **arguments})

    with pytest.raises(Refused, match="ResourceNotFound"):
        listed(format="exec")
    cluster(double, aadProfile={"managed": True})
    with pytest.raises(Refused, match="format exec"):
        listed()
    [found] = listed(format="exec")["kubeconfigs"]
    kubeconfig = yaml.safe_load(base64.b64decode(found["value"]))
    assert kubeconfig["clusters"] == document["clusters"]
    assert kubeconfig["users"][0]["user"].keys() == {"exec"}
    assert kubeconfig["users"][0]["user"]["exec"]["command"] == "kubelogin"
