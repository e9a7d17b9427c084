"""What the stack `azure-stack` declares, property by property: with no Azure and no machine."""

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.kubeconfig.found import Found
from clusters.nodes import DEVICE_PLUGIN as PLUGIN
from tests.program.addresses import public
from tests.program.declared import Declared, Program, declare, secret, templates, untranslated

TEMPLATE = Path(__file__).resolve().parents[2] / "stacks" / "azure-stack.yaml"
PROVIDER = "pulumi:providers:azure-native"
GROUP = "azure-native:resources:ResourceGroup"
CONNECTED = "azure-native:kubernetes:ConnectedCluster"
GENERIC = "azure-native:resources:Resource"
NETWORK = "azure-native:azurestackhci:LogicalNetwork"
ACCESS = "slipway:clusters:Access"
LISTED = "slipway:clusters:AzureLocalKubeconfig"

Declare = Callable[..., Program]


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Return what runs the program with the template's settings, and with others for some."""

    def run(*, jobs: Mapping[str, Any] | None = None, **changes: Any) -> Program:
        return declare(changed(changes, tmp_path, jobs), monkeypatch)

    return run


@pytest.fixture(scope="module")
def program(machine: pytest.MonkeyPatch) -> Program:
    return declare(TEMPLATE, machine)


def changed(
    changes: Mapping[str, Any], directory: Path, jobs: Mapping[str, Any] | None = None
) -> Path:
    """Return the template with other settings of the cluster; None leaves one out."""
    document = yaml.safe_load(TEMPLATE.read_text())
    cluster = {**document["config"]["slipway:cluster"], **changes}
    config = {
        "slipway:jobs": document["config"]["slipway:jobs"] if jobs is None else jobs,
        "slipway:cluster": {key: value for key, value in cluster.items() if value is not None},
    }
    path = directory / TEMPLATE.name
    path.write_text(yaml.safe_dump({"config": config}, sort_keys=False))
    return path


def settings() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())["config"]["slipway:cluster"]
    return found


def azure(program: Program) -> list[Declared]:
    return [each for each in program.resources if each.type.startswith("azure-native:")]


def instance(program: Program) -> Declared:
    return program.one(GENERIC, "azure-stack")


def gpu_pool(program: Program) -> Declared:
    return program.one(GENERIC, "azure-stack-gpu")


def test_every_input_is_one_that_the_sdk_knows(program: Program) -> None:
    assert {name for each in azure(program) for name in untranslated(each.inputs)} == set()


def test_the_cluster_is_one_that_azure_arc_provisions(program: Program) -> None:
    inputs = program.one(CONNECTED).inputs
    assert inputs["kind"] == "ProvisionedCluster"
    assert inputs["identity"] == {"type": "SystemAssigned"}


def test_only_the_named_groups_of_entra_get_in_and_azure_roles_decide(program: Program) -> None:
    assert program.one(CONNECTED).inputs["aadProfile"] == {
        "adminGroupObjectIDs": settings()["entra"]["adminGroups"],
        "enableAzureRBAC": True,
    }


def test_cluster_network_and_pool_are_at_the_custom_location(program: Program) -> None:
    place = {"type": "CustomLocation", "name": settings()["customLocation"]}
    for each in (instance(program), gpu_pool(program), program.one(NETWORK)):
        assert each.inputs["extendedLocation"] == place


def test_the_instance_belongs_to_the_connected_cluster(program: Program) -> None:
    inputs = instance(program).inputs
    assert inputs["resourceProviderNamespace"] == "Microsoft.Kubernetes"
    above = "connectedClusters/azure-stack/providers/Microsoft.HybridContainerService"
    assert inputs["parentResourcePath"] == above
    assert (inputs["resourceType"], inputs["resourceName"]) == (
        "provisionedClusterInstances",
        "default",
    )
    assert program.one(CONNECTED).urn in program.needs(instance(program))


def test_the_machines_are_in_the_logical_network_that_the_stack_makes(program: Program) -> None:
    network = program.one(NETWORK)
    profile = instance(program).inputs["properties"]["cloudProviderProfile"]
    assert profile == {"infraNetworkProfile": {"vnetSubnetIds": ["azure-stack-id"]}}
    assert network.urn in program.needs(instance(program))


def test_the_logical_network_gives_static_addresses_of_its_pool_alone(program: Program) -> None:
    wanted = settings()["logicalNetwork"]
    inputs = program.one(NETWORK).inputs
    [subnet] = inputs["subnets"]
    [pool] = subnet["ipPools"]
    [route] = subnet["routeTable"]["routes"]
    assert subnet["ipAllocationMethod"] == "Static"
    assert subnet["addressPrefix"] == wanted["prefix"]
    assert (pool["start"], pool["end"]) == (wanted["poolStart"], wanted["poolEnd"])
    assert route["nextHopIpAddress"] == wanted["gateway"]
    assert inputs["dhcpOptions"]["dnsServers"] == wanted["dnsServers"]
    assert inputs["vmSwitchName"] == wanted["vmSwitch"]


def test_the_api_server_has_the_address_that_the_settings_name(program: Program) -> None:
    plane = instance(program).inputs["properties"]["controlPlane"]
    assert plane["controlPlaneEndpoint"] == {"hostIP": settings()["controlPlane"]["address"]}
    assert plane["count"] == 1


def test_policies_between_pods_are_enforced(program: Program) -> None:
    network = instance(program).inputs["properties"]["networkProfile"]
    assert network["networkPolicy"] == "calico"


def test_one_key_opens_the_machines_from_the_configured_ranges(declared: Declare) -> None:
    properties = instance(declared(sshFrom=["10.0.5.0/24", "10.0.6.0/24"])).inputs["properties"]
    assert properties["linuxProfile"]["ssh"]["publicKeys"] == [{"keyData": settings()["sshKey"]}]
    assert properties["clusterVMAccessProfile"] == {"authorizedIPRanges": "10.0.5.0/24,10.0.6.0/24"}


def test_the_gpu_pool_is_a_resource_of_its_own_below_the_instance(program: Program) -> None:
    inputs = gpu_pool(program).inputs
    assert inputs["parentResourcePath"] == (
        "connectedClusters/azure-stack/providers/Microsoft.HybridContainerService"
        "/provisionedClusterInstances/default"
    )
    assert (inputs["resourceType"], inputs["resourceName"]) == ("agentPools", "gpu")
    assert instance(program).urn in program.needs(gpu_pool(program))


def test_the_gpu_pool_keeps_other_pods_off_and_can_be_asked_for(program: Program) -> None:
    properties = gpu_pool(program).inputs["properties"]
    assert properties["vmSize"] == settings()["gpu"]["size"]
    assert properties["nodeTaints"] == ["sku=gpu:NoSchedule"]
    assert properties["nodeLabels"] == {"slipway.dev/pool": "gpu"}


def test_the_gpu_pool_grows_and_shrinks_between_its_bounds(program: Program) -> None:
    pool = gpu_pool(program)
    properties = pool.inputs["properties"]
    assert properties["enableAutoScaling"] is True
    assert (properties["minCount"], properties["maxCount"]) == (1, 2)
    # What the autoscaler has made of it is no difference.
    assert pool.ignored == ("properties.count",)


def test_a_gpu_pool_of_one_size_is_set_to_it(declared: Declare) -> None:
    pool = gpu_pool(declared(gpu={"size": "Standard_NC4_A2", "minNodes": 3, "maxNodes": 3}))
    assert pool.inputs["properties"]["enableAutoScaling"] is False
    assert pool.inputs["properties"]["count"] == 3
    assert "minCount" not in pool.inputs["properties"]
    assert pool.ignored == ()


def test_another_gpu_pool_size_leaves_the_cluster(program: Program, declared: Declare) -> None:
    other = declared(gpu={**settings()["gpu"], "maxNodes": 4})
    assert gpu_pool(other).inputs != gpu_pool(program).inputs
    for token in (CONNECTED, NETWORK, GROUP):
        assert other.one(token).inputs == program.one(token).inputs
    assert instance(other).inputs == instance(program).inputs


def test_properties_that_the_service_cannot_update_cause_replacement(program: Program) -> None:
    assert "properties.vmSize" in gpu_pool(program).replaced_on
    assert "properties.cloudProviderProfile" in instance(program).replaced_on
    assert "properties.kubernetesVersion" not in instance(program).replaced_on
    assert "properties.agentPoolProfiles[0].count" not in instance(program).replaced_on


def test_the_preview_knows_what_replaces_the_cluster(program: Program, declared: Declare) -> None:
    fixed = program.one(ACCESS).inputs["fixed"]
    assert set(fixed) == {
        *("name", "resourceGroup", "location", "customLocation", "logicalNetwork", "pods"),
        *("sshKey", "controlPlane.size", "controlPlane.address", "system.size", "entra.azureRbac"),
    }
    network = {**settings()["logicalNetwork"], "vlan": 7}
    entra = {**settings()["entra"], "azureRbac": False}
    other = declared(pods="10.9.0.0/16", logicalNetwork=network, entra=entra)
    changed = {key: value for key, value in other.one(ACCESS).inputs["fixed"].items()
               if value != fixed[key]}  # fmt: skip
    assert changed.keys() == {"pods", "logicalNetwork", "entra.azureRbac"}
    assert "vlan 7" in changed["logicalNetwork"]


def test_without_gpus_there_is_no_pool_for_them(declared: Declare) -> None:
    program = declared(gpu=None, jobs={"mnist-gloo": {}})
    assert [each.name for each in program.of(GENERIC)] == ["azure-stack"]
    assert "this cluster has none" in program.outputs["skipped"]["mnist-nccl"]


def test_the_kubeconfig_is_listed_after_the_instance_by_a_secret_token(program: Program) -> None:
    listed = program.one(LISTED)
    assert listed.inputs["operation"] == "listUserKubeconfig"
    assert instance(program).urn in program.needs(listed)
    assert listed.inputs["instance"] == f"{instance(program).name}-id"
    assert listed.inputs["token"] == secret("a token")


def test_a_preview_takes_no_token(declared: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    assert "token" not in declared().one(LISTED).inputs


def test_the_cluster_first_answers_and_lets_this_account_in(program: Program) -> None:
    access = program.one("slipway:clusters:Access")
    assert instance(program).urn in program.needs(access)


def test_nothing_is_in_the_cluster_before_its_machines_are(program: Program) -> None:
    inside = [each for each in program.resources if each.type.startswith("kubernetes:")]
    assert inside
    for each in inside:
        needs = program.needs(each)
        assert {instance(program).urn, gpu_pool(program).urn} <= needs, each.urn


def test_what_may_have_tags_has_the_persons_and_slipways(declared: Declare) -> None:
    program = declared(tags={"cost-center": "42"})
    own = {"managed-by": "slipway", "slipway-cluster": "azure-stack", "cost-center": "42"}
    for token in (GROUP, CONNECTED, NETWORK):
        assert program.one(token).inputs["tags"] == own


def test_a_network_and_a_group_that_are_there_are_used_and_not_made(declared: Declare) -> None:
    there = (
        f"/subscriptions/{settings()['subscription']}/resourceGroups/site"
        "/providers/Microsoft.AzureStackHCI/logicalNetworks/aks"
    )
    program = declared(logicalNetwork=there, resourceGroup="ours", controlPlane=None)
    assert not program.of(NETWORK)
    assert not program.of(GROUP)
    profile = instance(program).inputs["properties"]["cloudProviderProfile"]
    assert profile["infraNetworkProfile"]["vnetSubnetIds"] == [there]
    assert program.one(CONNECTED).inputs["resourceGroupName"] == "ours"


REGISTRY = "registry.site.internal"
PUBLIC = "registry.example.org/team/train:1"
MIRROR = f"{REGISTRY}/mirror/train@sha256:{'4f53cda18c2baa0c' * 4}"
AWAY: dict[str, Any] = {
    "disconnected": {"controlPlane": "armmanagement.autonomous.cloud.private"},
    "adminKubeconfig": True,
    "entra": None,
    "gpu": None,
    "registry": {"server": f"{REGISTRY}/slipway", "mirrors": {PUBLIC: MIRROR}},
}
MINE = {"image": PUBLIC, "command": ["python3", "train.py"]}


def test_without_the_internet_nothing_that_is_declared_leads_there(declared: Declare) -> None:
    program = declared(jobs={"mnist-gloo": {}, "mine": MINE}, **AWAY)
    assert public(program, {REGISTRY}) == []


def test_azure_is_asked_for_at_its_own_control_plane(declared: Declare, program: Program) -> None:
    away = declared(jobs={"mnist-gloo": {}}, **AWAY)
    for each in (away.one(PROVIDER), away.one(LISTED)):
        assert each.inputs["metadataHost"] == AWAY["disconnected"]["controlPlane"]
    assert away.one(PROVIDER).inputs["disableInstanceDiscovery"] == "true"
    assert "metadataHost" not in program.one(PROVIDER).inputs


def test_an_image_that_was_mirrored_is_run_from_the_private_registry(declared: Declare) -> None:
    run = declared(jobs={"mine": MINE}, **AWAY).one("slipway:jobs:PyTorchJob")
    for template in templates(run).values():
        [container] = template["spec"]["containers"]
        assert container["image"] == MIRROR


def test_a_public_image_that_was_not_mirrored_is_refused(declared: Declare) -> None:
    mine = {**MINE, "image": "registry.example.org/team/train:2"}
    with pytest.raises(pulumi.RunError) as refused:
        declared(jobs={"mine": mine}, **AWAY)
    assert (
        'slipway:jobs.mine.image: "registry.example.org/team/train:2" is not in a registry that '
        f"the cluster can reach; push it to {REGISTRY}"
    ) in str(refused.value)


@pytest.mark.parametrize(
    ("where", "stray"),
    [
        ("kubernetes:apps/v1:Deployment", "busybox:1.36"),
        ("kubernetes:apps/v1:Deployment", "registry.example.org/tool:1"),
        ("kubernetes:core/v1:Service", "https://example.org/metrics"),
        ("kubernetes:core/v1:Service", "8.8.8.8"),
    ],
)
def test_a_public_address_that_strays_is_found(declared: Declare, where: str, stray: str) -> None:
    program = declared(jobs={"mnist-gloo": {}}, **AWAY)
    spoiled = program.of(where)[0]
    spoiled.inputs["spec"]["image"] = stray
    assert any(stray in each for each in public(program, {REGISTRY}))


def test_the_images_that_slipway_makes_are_pushed_to_the_private_registry(program: Program) -> None:
    server = settings()["registry"]["server"]
    made = [each for each in program.resources if each.type.startswith("slipway:images:")]
    assert {each.name for each in made} >= {"slipway-trainer", "slipway-trainer-cuda"}
    for each in made:
        assert each.inputs["target"]["kind"] == "registry"
        assert each.inputs["target"]["server"] == server


def test_the_operators_images_are_the_private_registrys(program: Program) -> None:
    server = settings()["registry"]["server"]
    deployment = program.one("kubernetes:apps/v1:Deployment")
    [container] = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith(f"{server}/")


HUB: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "hub", "cluster": {"server": "https://10.30.0.4:6443"}}],
    "users": [{"name": "me", "user": {"token": "a token"}}],
    "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """Return what runs the program on a cluster of Azure Stack Hub, which nobody looks at."""
    monkeypatch.setattr("clusters.kubeconfig.cluster.look", lambda *_: Found())
    kubeconfig = tmp_path / "hub.json"
    kubeconfig.write_text(json.dumps(HUB))
    logins = tmp_path / "config.json"
    auth = base64.b64encode(b"pusher:a password").decode()
    logins.write_text(json.dumps({"auths": {REGISTRY: {"auth": auth}}}))

    def run(mirrors: Mapping[str, str]) -> Program:
        registry = {
            "server": f"{REGISTRY}/slipway",
            "credentials": str(logins),
            "mirrors": dict(mirrors),
        }
        cluster = {
            "kind": "kubeconfig",
            "path": str(kubeconfig),
            "context": "hub",
            "registry": registry,
            "disconnected": True,
            "gpus": {"perNode": 1, "nodes": 2, "devicePlugin": True},
        }
        jobs = {"mnist-gloo": {"workers": 3}, "mnist-nccl": {}}
        path = tmp_path / "hub.yaml"
        path.write_text(
            yaml.safe_dump({"config": {"slipway:cluster": cluster, "slipway:jobs": jobs}})
        )
        return declare(path, monkeypatch)

    return run


PLUGIN_MIRROR = f"{REGISTRY}/mirror/k8s-device-plugin@sha256:{'7089559ce6153018' * 4}"


def test_on_azure_stack_hub_nothing_that_is_declared_leads_to_the_internet(hub: Declare) -> None:
    program = hub({PLUGIN: PLUGIN_MIRROR})
    assert public(program, {REGISTRY}) == []


def test_a_jobs_own_pull_secret_is_beside_the_registrys(declared: Declare, tmp_path: Path) -> None:
    logins = tmp_path / "config.json"
    auth = base64.b64encode(b"pusher:a password").decode()
    logins.write_text(json.dumps({"auths": {REGISTRY: {"auth": auth}}}))
    registry = {"server": f"{REGISTRY}/slipway", "credentials": str(logins)}
    jobs = {"mnist-gloo": {"pullSecrets": ["hub"]}}
    run = declared(registry=registry, jobs=jobs).one("slipway:jobs:PyTorchJob")
    for template in templates(run).values():
        secrets = template["spec"]["imagePullSecrets"]
        assert secrets == [{"name": "hub"}, {"name": "slipway-registry"}]


def test_a_device_plugin_that_was_not_mirrored_is_refused(hub: Declare) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        hub({})
    assert f"slipway:cluster.registry.mirrors: lacks {PLUGIN}" in str(refused.value)
