"""The recording double without an engine: what it makes up, records, changes and refuses."""

import base64
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.values import UNKNOWN
from scripts.offline.azure_recording import life
from scripts.offline.azure_recording.catalog import TYPES, Unserved, served
from scripts.offline.azure_recording.checking import Asked, completed
from scripts.offline.azure_recording.credentials import UnservedFunction, answer
from scripts.offline.azure_recording.differ import NotChangeable, changes, refuse
from scripts.offline.azure_recording.outputs import outputs, previewed
from scripts.offline.azure_recording.recording import VARIABLE, Recording, Refused
from scripts.offline.azure_recording.sdk import api_version, inputs_of, outputs_of
from scripts.offline.azure_recording.session import NoAzure
from scripts.offline.azure_recording.shapes import findings
from tests.unit.azure_objects import (
    CLUSTER,
    GROUP,
    POOL,
    SUBSCRIPTION,
    Told,
    cluster,
    group,
    lent,
    session,
)

URN = "urn:pulumi:azure::slipway::slipway:clusters:Aks$azure-native:{}::own"
IN_GROUP = {"resourceGroupName": "slipway", "resourceName": "slipway"}


@pytest.fixture(autouse=True)
def nothing_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_it_says_once_that_it_is_no_azure() -> None:
    told = Told()
    made = session(told)
    made.introduce()
    made.introduce()
    [message] = told.messages
    assert "Azure is not asked" in message
    assert "\n" not in message


def test_outside_of_tests_nothing_is_made_changed_read_or_removed() -> None:
    made = session()
    acts = (
        lambda: life.create(made, GROUP, {"resourceGroupName": "slipway"}, preview=False),
        lambda: life.update(made, GROUP, "/id", {"old": {}, "new": {}}, preview=False),
        lambda: life.read(made, "/id", {}),
        lambda: life.delete(made, "/id"),
    )
    for act in acts:
        with pytest.raises(NoAzure, match="plugin install resource azure-native"):
            act()


def test_a_preview_shows_inputs_and_leaves_open_what_the_service_adds() -> None:
    inputs = {**IN_GROUP, "location": "westeurope", "oidcIssuerProfile": {"enabled": True}}
    _, found = life.create(session(), CLUSTER, inputs, preview=True)
    assert found["location"] == "westeurope"
    assert found["fqdn"] is UNKNOWN
    assert found["oidcIssuerProfile"] == {"enabled": True, "issuerURL": UNKNOWN}


@pytest.mark.parametrize("token", [f"azure-native:{each}" for each in TYPES])
def test_what_is_made_up_is_of_the_sdks_own_types(token: str) -> None:
    made = outputs(token, "/subscriptions/1/resourceGroups/a/providers/Microsoft.X/y/z", {})
    assert [str(each) for each in findings(made, outputs_of(token))] == []
    assert made == outputs(token, "/subscriptions/1/resourceGroups/a/providers/Microsoft.X/y/z", {})


def test_outputs_of_another_shape_than_the_input_are_no_echo() -> None:
    """A list of identities becomes a map of them."""
    identity = {"type": "UserAssigned", "userAssignedIdentities": ["/one"]}
    found = outputs(CLUSTER, "/c", {"identity": identity, "dnsPrefix": "a", "location": "b"})
    assert found["identity"]["userAssignedIdentities"]["/one"].keys() == {"clientId", "principalId"}
    assert previewed(CLUSTER, {"identity": identity})["identity"] is UNKNOWN


def test_a_type_that_is_not_served_is_refused_by_name() -> None:
    with pytest.raises(Unserved, match=r"does not serve azure-native:sql:Server; it serves .*Age"):
        served("azure-native:sql:Server")


def test_a_function_that_is_not_served_is_refused_by_name() -> None:
    with pytest.raises(UnservedFunction, match="function azure-native:sql:getServer; it serves"):
        answer(session(), "azure-native:sql:getServer", {})


@pytest.mark.parametrize(
    ("kind", "inputs", "key", "expected"),
    [
        ("resources:ResourceGroup", {}, "resourceGroupName", r"own[0-9a-f]{8}"),
        ("authorization:RoleAssignment", {}, "roleAssignmentName", r"[0-9a-f-]{36}"),
        ("storage:BlobServiceProperties", {}, "blobServicesName", "default"),
        ("resources:ResourceGroup", {"resourceGroupName": "a"}, "resourceGroupName", "a"),
    ],
)
def test_what_the_program_does_not_name_gets_a_name(
    kind: str, inputs: dict[str, Any], key: str, expected: str
) -> None:
    asked = Asked(URN.format(kind), inputs, seed=b"seed")
    name = completed(asked, None)[key]
    assert re.fullmatch(expected, name)
    assert completed(asked, None)[key] == name
    later = Asked(URN.format(kind), inputs, before={key: "before"}, seed=b"other")
    assert completed(later, None)[key] == inputs.get(key, "before")


def test_the_providers_location_is_that_of_what_says_none() -> None:
    asked = Asked(URN.format("resources:ResourceGroup"), {})
    assert completed(asked, "westeurope")["location"] == "westeurope"
    # A pool is where its cluster is, and has no such property.
    pool = Asked(URN.format("containerservice:AgentPool"), {"agentPoolName": "gpu"})
    assert "location" not in completed(pool, "westeurope")


@pytest.mark.parametrize(
    ("token", "key", "replaced"),
    [
        (POOL, "vmSize", True),
        (POOL, "agentPoolName", True),
        (POOL, "maxCount", False),
        (POOL, "nodeTaints", False),
        (CLUSTER, "location", True),
        (CLUSTER, "dnsPrefix", True),
        (CLUSTER, "networkProfile.podCidr", True),
        (CLUSTER, "networkProfile.loadBalancerSku", False),
        (CLUSTER, "kubernetesVersion", False),
    ],
)
def test_a_diff_tells_what_is_made_anew_and_what_is_changed(
    token: str, key: str, replaced: bool
) -> None:
    def at(value: str) -> dict[str, Any]:
        head, _, inner = key.partition(".")
        return {head: {inner: value} if inner else value, "tags": {}}

    [change] = changes(served(token), at("before"), at("after"))
    assert (change.path, change.replace) == (key, replaced)


def test_a_property_that_is_taken_away_is_a_change() -> None:
    [change] = changes(served(POOL), {"maxCount": 2}, {})
    assert (change.path, change.kind, change.replace) == ("maxCount", "delete", False)


def test_what_azure_does_not_change_is_refused_where_the_plugin_would_try() -> None:
    old = {"spotMaxPrice": -1, "scaleSetPriority": "Spot", "maxCount": 1}
    new = {"spotMaxPrice": 1, "scaleSetPriority": "Regular", "maxCount": 2}
    with pytest.raises(
        NotChangeable, match=r"change scaleSetPriority, spotMaxPrice of .*replace_on"
    ):
        refuse(served(POOL), old, new)
    refuse(served(POOL), old, {**old, "maxCount": 2})


def test_a_pool_inside_of_its_cluster_keeps_its_size_of_machine() -> None:
    def with_pools(*sizes: str) -> dict[str, Any]:
        return {"agentPoolProfiles": [{"vmSize": size, "count": len(size)} for size in sizes]}

    with pytest.raises(NotChangeable, match=r"agentPoolProfiles\[0\].vmSize"):
        refuse(served(CLUSTER), with_pools("a"), with_pools("b"))
    refuse(served(CLUSTER), with_pools("a"), with_pools("a", "b"))


def test_a_resource_is_recorded_read_and_removed(tmp_path: Path) -> None:
    made = lent(tmp_path)
    resource_id = group(made)
    assert resource_id == f"/subscriptions/{SUBSCRIPTION}/resourceGroups/slipway"
    inputs = {"resourceGroupName": "slipway", "location": "westeurope"}
    found = life.read(made, resource_id, inputs)
    assert found is not None
    assert found[0] == inputs
    assert found[1]["name"] == "slipway"
    life.delete(made, resource_id)
    life.delete(made, resource_id)
    assert life.read(made, resource_id, inputs) is None
    actions = [call["action"] for call in Recording(tmp_path).calls]
    assert actions == ["create", "delete", "delete"]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    made = lent(tmp_path)
    group(made)
    with pytest.raises(Refused, match="cannot create already existing resource"):
        group(made)


def test_nothing_is_made_in_what_is_not_there(tmp_path: Path) -> None:
    made = lent(tmp_path)
    with pytest.raises(Refused, match="ResourceGroupNotFound"):
        cluster(made)
    group(made)
    pool = {**IN_GROUP, "agentPoolName": "cpu", "vmSize": "Standard_D4s_v5"}
    with pytest.raises(Refused, match="ParentResourceNotFound"):
        life.create(made, POOL, pool, preview=False)
    cluster(made)
    resource_id, _ = life.create(made, POOL, pool, preview=False)
    assert resource_id.endswith("/managedClusters/slipway/agentPools/cpu")


def test_a_group_takes_with_it_what_is_in_it(tmp_path: Path) -> None:
    made = lent(tmp_path)
    resource_id = group(made)
    cluster(made)
    life.delete(made, resource_id.upper())
    assert list(Recording(tmp_path).all()) == []


def test_a_lock_keeps_what_is_below_it(tmp_path: Path) -> None:
    made = lent(tmp_path)
    scope = group(made)
    inside = cluster(made)
    lock = {"scope": scope, "lockName": "keep", "level": "CanNotDelete"}
    token = "azure-native:authorization:ManagementLockByScope"
    lock_id, _ = life.create(made, token, lock, preview=False)
    with pytest.raises(Refused, match="ScopeLocked"):
        life.delete(made, inside)
    life.delete(made, lock_id)
    life.delete(made, inside)


def test_a_change_behind_the_programs_back_is_read(tmp_path: Path) -> None:
    made = lent(tmp_path)
    resource_id = cluster_in_group(made)
    life.change_behind(Recording(tmp_path), resource_id, kubernetesVersion="1.99", tags={"a": "b"})
    read = life.read(made, resource_id, {"kubernetesVersion": "1.34"})
    assert read is not None
    # What the program left to the service is none of its inputs.
    assert read[0] == {"kubernetesVersion": "1.99"}
    assert read[1]["tags"] == {"a": "b"}


def cluster_in_group(made: Any, **inputs: Any) -> str:
    group(made)
    return cluster(made, **inputs)


def listing(made: Any, who: str, **arguments: Any) -> dict[str, Any]:
    """Return the kubeconfig that the SDK's function lists."""
    token = f"azure-native:containerservice:listManagedCluster{who}Credentials"
    [listed] = answer(made, token, {**IN_GROUP, **arguments})["kubeconfigs"]
    found: dict[str, Any] = yaml.safe_load(base64.b64decode(listed["value"]))
    return found


@pytest.fixture
def kubeconfig(tmp_path: Path) -> dict[str, Any]:
    """What is lent with a recording."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"client-key-data": "a secret"}}],
    }
    Recording(tmp_path).kubeconfig.write_text(yaml.safe_dump(document))
    return document


def test_a_cluster_with_entra_lists_a_login_and_no_secret(
    tmp_path: Path, kubeconfig: dict[str, Any]
) -> None:
    made = lent(tmp_path)
    cluster_in_group(made, aadProfile={"managed": True}, disableLocalAccounts=True)
    listed = listing(made, "User", format="exec")
    assert listed["clusters"] == kubeconfig["clusters"]
    [user] = listed["users"]
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["command"] == "kubelogin"
    with pytest.raises(Refused, match="format exec"):
        listing(made, "User")
    with pytest.raises(Refused, match="disable local accounts"):
        listing(made, "Admin")


@pytest.mark.usefixtures("kubeconfig")
def test_a_cluster_without_entra_lists_certificates(tmp_path: Path) -> None:
    made = lent(tmp_path)
    cluster_in_group(made)
    for who in ("User", "Admin"):
        assert listing(made, who)["users"][0]["user"] == {"client-key-data": "a secret"}


def test_nothing_is_listed_of_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="ResourceNotFound"):
        listing(lent(tmp_path), "Admin")


def test_a_recording_is_lent_by_a_variable_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Recording.lent() is None
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path))
    assert Recording.lent() == Recording(tmp_path)


def test_the_sdk_says_which_interface_it_uses() -> None:
    assert api_version(POOL) == "2025-09-01"
    assert {"resourceGroupName", "resourceName"} <= inputs_of(POOL).required
