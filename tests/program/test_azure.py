"""Clusters of Azure and of Azure Local as the program declares them, property by property."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests.doubles import recorded_az, recorded_kubelogin
from tests.program.declared import (
    ABSENT,
    Declare,
    Declared,
    Program,
    at,
    declare,
    secret,
    templates,
    untranslated,
)

ME, GROUP = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
CLUSTER = "azure-native:containerservice:ManagedCluster"
POOL = "azure-native:containerservice:AgentPool"
IDENTITY = "azure-native:managedidentity:UserAssignedIdentity"
ROLE = "azure-native:authorization:RoleAssignment"
REGISTRY = "azure-native:containerregistry:Registry"
ACCOUNT = "azure-native:storage:StorageAccount"
BLOBS = "azure-native:storage:BlobContainer"
BUDGET = "azure-native:consumption:Budget"
RESOURCE_GROUP = "azure-native:resources:ResourceGroup"
ARC = "azure-native:kubernetes:ConnectedCluster"
NETWORK = "azure-native:azurestackhci:LogicalNetwork"
GENERIC = "azure-native:resources:Resource"
LISTED = "slipway:clusters:AzureLocalKubeconfig"
ACCESS = "slipway:clusters:Access"
RUN = "slipway:jobs:PyTorchJob"
PRIORITIES = "kubernetes:core/v1:ConfigMap cluster-autoscaler-priority-expander"
CPU, PAID = f"{POOL} azure-cpu", f"{POOL} azure-gpu"
INSTANCE, LOCAL_GPU = f"{GENERIC} azure-stack", f"{GENERIC} azure-stack-gpu"

SPOT: Mapping[str, Any] = {
    "kind": "aks",
    "subscription": ME,
    "tenant": GROUP,
    "location": "westeurope",
    "api": {"authorizedRanges": ["198.51.100.0/24", "192.0.2.7/32"]},
    "admins": {"users": [ME], "groups": [GROUP]},
    "gpu": {"maxNodes": 3, "zones": ["1", "2"], "spot": {"maxPrice": 0.25}},
    "budget": {"amount": 100, "emails": ["you@example.org"]},
    "tags": {"team": "vision"},
}
FALLBACK = {"maxNodes": 1, "zones": ["3"]}
LOCAL: Mapping[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / "stacks" / "azure-stack.yaml").read_text()
)["config"]["slipway:cluster"]
CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "spot": SPOT,
    # Regular nodes for jobs where Azure has no spot node.
    "falling_back": {
        **SPOT, "gpu": {**SPOT["gpu"], "spot": {**SPOT["gpu"]["spot"], "fallback": FALLBACK}},
    },
    # Protected, with no public address, nodes of its own for CPUs, and the GPU operator.
    "production": {
        **SPOT,
        "api": {"private": True},
        "production": True,
        "cpu": {},
        "gpu": {
            "size": "Standard_NC64as_T4_v3",
            "driver": "gpu-operator",
            "minNodes": 1,
            "osDisk": {"type": "Ephemeral", "gib": 256},
        },
        "budget": False,
        "images": {"trainer": "example.azurecr.io/trainer:1"},
    },
    "local": LOCAL,
}  # fmt: skip


@pytest.fixture(scope="module")
def programs(machine: pytest.MonkeyPatch) -> Callable[[str], Program]:
    """Return what a stack of CLUSTERS declares, by its key there."""

    @cache
    def program(name: str) -> Program:
        stack, job = ("azure-stack", "mnist-gloo") if name == "local" else ("azure", "mnist-nccl")
        jobs: Mapping[str, Any] = {job: {}, "mnist-nccl": {}}
        return declare({"cluster": CLUSTERS[name], "jobs": jobs}, machine, stack=stack)

    return program


@pytest.fixture
def spot(programs: Callable[[str], Program]) -> Program:
    return programs("spot")


@pytest.fixture
def falling_back(programs: Callable[[str], Program]) -> Program:
    return programs("falling_back")


@pytest.fixture
def production(programs: Callable[[str], Program]) -> Program:
    return programs("production")


@pytest.fixture
def local(programs: Callable[[str], Program]) -> Program:
    return programs("local")


def one(program: Program, resource: str) -> Declared:
    """Return a resource by its type and, where there are more of it, its name."""
    token, _, name = resource.partition(" ")
    return program.one(token, name or None)


def azure(program: Program) -> list[Declared]:
    return [each for each in program.resources if each.type.startswith("azure-native:")]


def roles(program: Program, principal: str) -> set[tuple[str, str]]:
    """Return the ID of each role that a principal has, and what it has it to."""
    return {
        (each.inputs["roleDefinitionId"].rsplit("/", 1)[1], each.inputs["scope"])
        for each in program.of(ROLE)
        if each.inputs["principalId"] == principal
    }


def system(program: Program) -> dict[str, Any]:
    (pool,) = program.one(CLUSTER).inputs["agentPoolProfiles"]
    found: dict[str, Any] = pool
    return found


SYSTEM = "agentPoolProfiles.0"
TRUST = "azure-native:managedidentity:FederatedIdentityCredential"
UPGRADES = "azure-native:containerservice:MaintenanceConfiguration"
KEPT = "azure-native:storage:BlobServiceProperties"
WEEK = {"enabled": True, "days": 7}
SUNDAY = {"weekly": {"dayOfWeek": "Sunday", "intervalWeeks": 1}}
RESTRICTED = {"authorizedIPRanges": ["198.51.100.0/24", "192.0.2.7/32"], "disableRunCommand": True}
IMAGES_ALONE = {"nodeOSUpgradeChannel": "NodeImage", "upgradeChannel": "none"}
ON = {"enabled": True}
CRITICAL = ["CriticalAddonsOnly=true:NoSchedule"]
GPU_TAINT, SPOT_PRIORITY = "sku=gpu:NoSchedule", "kubernetes.azure.com/scalesetpriority"
SPOT_TAINT = f"{SPOT_PRIORITY}=spot:NoSchedule"
JOB_SUBJECT = "system:serviceaccount:slipway-jobs:slipway-job"
ENTRA = {"managed": True, "enableAzureRBAC": True, "adminGroupObjectIDs": [GROUP]}
PRIVATE = {"enablePrivateCluster": True, "enablePrivateClusterPublicFQDN": False,
           "privateDNSZone": "system", "disableRunCommand": True}  # fmt: skip
FIXED = {"name": "slipway-azure", "resourceGroup": "slipway-azure", "location": "westeurope",
         "network.pods": "10.244.0.0/16", "network.services": "10.41.0.0/16"}  # fmt: skip
HOURS = {"durationHours": 4, "startTime": "02:00", "utcOffset": "+00:00", "schedule": SUNDAY}
COUNTED = {"name": "ResourceGroupName", "operator": "In",
           "values": ["slipway-azure", "slipway-azure-nodes"]}  # fmt: skip
PLACE = {"type": "CustomLocation", "name": LOCAL["customLocation"]}
GROUPS = {"adminGroupObjectIDs": LOCAL["entra"]["adminGroups"], "enableAzureRBAC": True}
LABEL = {"slipway.dev/pool": "gpu"}
KUBERNETES, ONE = "Microsoft.Kubernetes", "provisionedClusterInstances/default"
CONNECTED = "connectedClusters/azure-stack/providers/Microsoft.HybridContainerService"
MACHINES = "properties.cloudProviderProfile"
SUBNETS = {"infraNetworkProfile": {"vnetSubnetIds": ["azure-stack-id"]}}
ENDPOINT = "properties.controlPlane.controlPlaneEndpoint"
ADDRESS, KEY = {"hostIP": LOCAL["controlPlane"]["address"]}, [{"keyData": LOCAL["sshKey"]}]
POLICY = "properties.networkProfile.networkPolicy"
SUBNET, RANGE, ROUTE = "subnets.0", "subnets.0.ipPools.0", "subnets.0.routeTable.routes.0"
SITE = LOCAL["logicalNetwork"]


@pytest.mark.parametrize(
    ("promise", "stack", "resource", "path", "value"),
    [
        ("network policies hold", "spot", CLUSTER, "networkProfile.networkPolicy", "cilium"),
        ("network policies hold", "spot", CLUSTER, "networkProfile.networkDataplane", "cilium"),
        ("network policies hold", "local", INSTANCE, POLICY, "calico"),
        ("the system pool is one", "spot", CLUSTER, f"{SYSTEM}.mode", "System"),
        ("the system pool has a node at least", "spot", CLUSTER, f"{SYSTEM}.minCount", 1),
        ("the system pool begins with a node", "spot", CLUSTER, f"{SYSTEM}.count", 1),
        ("the system pool is not spot", "spot", CLUSTER, f"{SYSTEM}.scaleSetPriority", ABSENT),
        ("without CPU nodes it takes other pods", "spot", CLUSTER, f"{SYSTEM}.nodeTaints", ABSENT),
        ("with CPU nodes it takes none", "production", CLUSTER, f"{SYSTEM}.nodeTaints", CRITICAL),
        ("there is a CPU node at least", "production", CPU, "minCount", 1),
        ("GPU nodes are scaled", "spot", POOL, "enableAutoScaling", True),
        ("GPU nodes are scaled", "local", LOCAL_GPU, "properties.enableAutoScaling", True),
        ("GPU nodes may be none", "spot", POOL, "minCount", 0),
        ("GPU nodes have a least number", "local", LOCAL_GPU, "properties.minCount", 1),
        ("GPU nodes begin with none", "spot", POOL, "count", 0),
        ("GPU nodes have a limit", "spot", POOL, "maxCount", 3),
        ("GPU nodes have a limit", "local", LOCAL_GPU, "properties.maxCount", 2),
        ("GPU nodes have taints", "spot", POOL, "nodeTaints", [GPU_TAINT, SPOT_TAINT]),
        ("GPU nodes have taints", "local", LOCAL_GPU, "properties.nodeTaints", [GPU_TAINT]),
        ("GPU nodes have a label", "spot", POOL, "nodeLabels.slipway-pool", "gpu"),
        ("GPU nodes have a label", "local", LOCAL_GPU, "properties.nodeLabels", LABEL),
        ("GPU nodes have the size", "spot", POOL, "vmSize", "Standard_NC4as_T4_v3"),
        ("GPU nodes have the size", "local", LOCAL_GPU, "properties.vmSize", "Standard_NC4_A2"),
        ("GPU nodes are in the zones", "spot", POOL, "availabilityZones", ["1", "2"]),
        ("GPU nodes have the disk", "production", PAID, "osDiskType", "Ephemeral"),
        ("GPU nodes have the disk's size", "production", PAID, "osDiskSizeGB", 256),
        ("GPU nodes are regular unless spot", "production", PAID, "scaleSetPriority", "Regular"),
        ("spot nodes are spot", "spot", POOL, "scaleSetPriority", "Spot"),
        ("spot nodes go when evicted", "spot", POOL, "scaleSetEvictionPolicy", "Delete"),
        ("spot nodes have a highest price", "spot", POOL, "spotMaxPrice", 0.25),
        ("AKS installs the driver", "spot", POOL, "gpuProfile", {"driver": "Install"}),
        ("or the GPU operator does", "production", PAID, "gpuProfile", {"driver": "None"}),
        # A role takes a while to allow it.
        ("a pull is retried", "spot", "slipway:infra:OperatorReady", "refusedPulls.seconds", 900),
        ("a pull is retried", "spot", RUN, "refusedPulls.seconds", 900),
        ("idle nodes go", "spot", CLUSTER, "autoScalerProfile.scaleDownUnneededTime", "10m"),
        ("accounts have tokens", "spot", CLUSTER, "oidcIssuerProfile", ON),
        ("accounts are identities", "spot", CLUSTER, "securityProfile.workloadIdentity", ON),
        ("jobs have an identity", "spot", TRUST, "resourceName", "azure-jobs"),
        ("only pods of jobs are it", "spot", TRUST, "subject", JOB_SUBJECT),
        ("only this cluster vouches", "spot", TRUST, "issuer", "https://issuer.example.org/"),
        ("it is for Entra", "spot", TRUST, "audiences", ["api://AzureADTokenExchange"]),
        ("Entra knows people", "spot", CLUSTER, "aadProfile", ENTRA),
        ("Entra knows people", "local", ARC, "aadProfile", GROUPS),
        ("there is no other administrator", "spot", CLUSTER, "disableLocalAccounts", True),
        ("roles decide", "spot", CLUSTER, "enableRBAC", True),
        ("the API server answers these", "spot", CLUSTER, "apiServerAccessProfile", RESTRICTED),
        ("no public address", "production", CLUSTER, "apiServerAccessProfile", PRIVATE),
        ("the registry has no admin", "spot", REGISTRY, "adminUserEnabled", False),
        ("the registry is not public", "spot", REGISTRY, "anonymousPullEnabled", False),
        ("storage has no key", "spot", ACCOUNT, "allowSharedKeyAccess", False),
        ("storage has no public blob", "spot", ACCOUNT, "allowBlobPublicAccess", False),
        ("storage is encrypted on its way", "spot", ACCOUNT, "enableHttpsTrafficOnly", True),
        ("storage is encrypted on its way", "spot", ACCOUNT, "minimumTlsVersion", "TLS1_2"),
        ("no blob is public", "spot", f"{BLOBS} azure-data", "publicAccess", "None"),
        ("no blob is public", "spot", f"{BLOBS} azure-artifacts", "publicAccess", "None"),
        ("data has a container", "spot", f"{BLOBS} azure-data", "containerName", "data"),
        ("so have artifacts", "spot", f"{BLOBS} azure-artifacts", "containerName", "artifacts"),
        ("blobs come back for a week", "spot", KEPT, "deleteRetentionPolicy", WEEK),
        ("containers come back, too", "spot", KEPT, "containerDeleteRetentionPolicy", WEEK),
        ("uptime is free", "spot", CLUSTER, "sku", {"name": "Base", "tier": "Free"}),
        ("or paid for", "production", CLUSTER, "sku", {"name": "Base", "tier": "Standard"}),
        ("nodes get new images alone", "spot", CLUSTER, "autoUpgradeProfile", IMAGES_ALONE),
        # AKS takes the hours of node images from the one of this name.
        ("in these hours", "spot", UPGRADES, "configName", "aksManagedNodeOSUpgradeSchedule"),
        ("in these hours", "spot", UPGRADES, "maintenanceWindow", HOURS),
        ("a preview knows what replaces the cluster", "spot", ACCESS, "fixed", FIXED),
        ("the budget is the subscription's", "spot", BUDGET, "scope", f"/subscriptions/{ME}"),
        ("the budget counts the nodes' group", "spot", BUDGET, "filter.dimensions", COUNTED),
        ("nodes are there", "spot", CLUSTER, "nodeResourceGroup", "slipway-azure-nodes"),
        ("AKS refuses one without its role", "spot", CLUSTER, "identityProfile", ABSENT),
        ("Azure Arc provisions the cluster", "local", ARC, "kind", "ProvisionedCluster"),
        ("the cluster has an identity", "local", ARC, "identity", {"type": "SystemAssigned"}),
        ("it is at the custom location", "local", INSTANCE, "extendedLocation", PLACE),
        ("so is its pool", "local", LOCAL_GPU, "extendedLocation", PLACE),
        ("so is its network", "local", NETWORK, "extendedLocation", PLACE),
        ("the instance is Arc's", "local", INSTANCE, "resourceProviderNamespace", KUBERNETES),
        ("it is below it", "local", INSTANCE, "parentResourcePath", CONNECTED),
        ("it is the one", "local", INSTANCE, "resourceType", "provisionedClusterInstances"),
        ("it is the one", "local", INSTANCE, "resourceName", "default"),
        ("the pool is below it", "local", LOCAL_GPU, "parentResourcePath", f"{CONNECTED}/{ONE}"),
        ("the pool is a resource of its own", "local", LOCAL_GPU, "resourceType", "agentPools"),
        ("the pool is a resource of its own", "local", LOCAL_GPU, "resourceName", "gpu"),
        ("machines are in the stack's network", "local", INSTANCE, MACHINES, SUBNETS),
        ("addresses are static", "local", NETWORK, f"{SUBNET}.ipAllocationMethod", "Static"),
        ("addresses are its own", "local", NETWORK, f"{SUBNET}.addressPrefix", SITE["prefix"]),
        ("addresses begin", "local", NETWORK, f"{RANGE}.start", SITE["poolStart"]),
        ("and end", "local", NETWORK, f"{RANGE}.end", SITE["poolEnd"]),
        ("there is a way out", "local", NETWORK, f"{ROUTE}.nextHopIpAddress", SITE["gateway"]),
        ("names are resolved", "local", NETWORK, "dhcpOptions.dnsServers", SITE["dnsServers"]),
        ("the switch is the site's", "local", NETWORK, "vmSwitchName", SITE["vmSwitch"]),
        ("the API server has it", "local", INSTANCE, ENDPOINT, ADDRESS),
        ("the control plane is one", "local", INSTANCE, "properties.controlPlane.count", 1),
        ("one key opens", "local", INSTANCE, "properties.linuxProfile.ssh.publicKeys", KEY),
        ("Azure lists the kubeconfig", "local", LISTED, "operation", "listUserKubeconfig"),
        ("the kubeconfig is the instance's", "local", LISTED, "instance", "azure-stack-id"),
        ("its token is secret", "local", LISTED, "token", secret("a token")),
    ],
)
def test_a_property_is_declared_as_promised(
    promise: str,
    stack: str,
    resource: str,
    path: str,
    value: Any,
    programs: Callable[[str], Program],
) -> None:
    assert at(one(programs(stack), resource), path) == value, promise


@pytest.mark.parametrize(
    ("stack", "resource", "earlier"),
    [
        ("falling_back", PRIORITIES, [ACCESS]),
        ("falling_back", RUN, [PRIORITIES]),
        # The cluster first has nodes, and lets the person in.
        ("spot", ACCESS, [CLUSTER, POOL]),
        ("local", INSTANCE, [ARC, NETWORK]),
        ("local", LOCAL_GPU, [INSTANCE]),
        ("local", LISTED, [INSTANCE]),
        ("local", ACCESS, [INSTANCE, LOCAL_GPU]),
    ],
)
def test_a_resource_is_declared_after_what_it_needs(
    stack: str, resource: str, earlier: list[str], programs: Callable[[str], Program]
) -> None:
    program = programs(stack)
    assert {one(program, each).urn for each in earlier} <= program.needs(one(program, resource))


@pytest.mark.parametrize(
    ("stack", "resource", "key"),
    [
        ("spot", POOL, "count"),
        ("spot", CLUSTER, "agentPoolProfiles"),
        # The budget's first month is no change in the next.
        ("spot", BUDGET, "timePeriod"),
    ],
)
def test_what_the_autoscaler_and_time_change_is_no_difference(
    stack: str, resource: str, key: str, programs: Callable[[str], Program]
) -> None:
    assert key in one(programs(stack), resource).ignored


@pytest.mark.parametrize(
    ("stack", "resource", "replacing", "updated"),
    [
        ("spot", POOL, {"vmSize", "osDiskType", "scaleSetPriority"}, set()),
        ("local", LOCAL_GPU, {"properties.vmSize"}, set()),
        (
            *("local", INSTANCE, {"properties.cloudProviderProfile"}),
            {"properties.kubernetesVersion", "properties.agentPoolProfiles[0].count"},
        ),
    ],
)
def test_properties_that_the_service_cannot_update_cause_replacement(
    stack: str,
    resource: str,
    replacing: set[str],
    updated: set[str],
    programs: Callable[[str], Program],
) -> None:
    replaced_on = set(one(programs(stack), resource).replaced_on)
    assert replacing <= replaced_on
    assert not updated & replaced_on


def test_no_property_of_aks_replaces_the_cluster(spot: Program) -> None:
    assert spot.one(CLUSTER).replaced_on == ()


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_input_is_one_that_the_sdk_knows(
    stack: str, programs: Callable[[str], Program]
) -> None:
    """What is declared on Azure has no key that the SDK does not know."""
    declared = azure(programs(stack))
    assert {name for each in declared for name in untranslated(each.inputs)} == set()


def test_all_but_the_subscriptions_own_is_in_one_resource_group(spot: Program) -> None:
    group = spot.one(RESOURCE_GROUP)
    assert group.inputs["resourceGroupName"] == "slipway-azure"
    placed = [each for each in azure(spot) if "resourceGroupName" in each.inputs]
    assert {each.inputs["resourceGroupName"] for each in placed} == {"slipway-azure"}
    assert all(group.urn in spot.needs(each) for each in azure(spot) if each != group)


def test_whatever_takes_tags_has_them(spot: Program) -> None:
    wanted = {"managed-by": "slipway", "slipway-cluster": "azure", "team": "vision"}
    tagged = {each.type for each in azure(spot) if each.inputs.get("tags") == wanted}
    assert tagged == {
        "azure-native:network:NetworkSecurityGroup",
        "azure-native:network:VirtualNetwork",
        "azure-native:operationalinsights:Workspace",
        *(RESOURCE_GROUP, IDENTITY, REGISTRY, ACCOUNT, CLUSTER, POOL),
    }
    assert system(spot)["tags"] == wanted


def test_what_may_have_tags_on_azure_local_has_the_persons_and_slipways(changed: Declare) -> None:
    program = changed("azure-stack", tags={"cost-center": "42"})
    own = {"managed-by": "slipway", "slipway-cluster": "azure-stack", "cost-center": "42"}
    for token in (RESOURCE_GROUP, ARC, NETWORK):
        assert program.one(token).inputs["tags"] == own


def test_nodes_have_a_subnet_that_nothing_outside_reaches(spot: Program) -> None:
    guard = spot.one("azure-native:network:NetworkSecurityGroup")
    assert "securityRules" not in guard.inputs
    subnet = spot.one("azure-native:network:Subnet")
    assert subnet.inputs["networkSecurityGroup"] == {"id": f"{guard.name}-id"}
    for pool in (system(spot), spot.one(POOL).inputs):
        assert pool["vnetSubnetID"] == f"{subnet.name}-id"
        assert pool["enableNodePublicIP"] is False


def test_regular_nodes_that_take_over_are_grown_last(spot: Program, falling_back: Program) -> None:
    """A job goes on after its spot nodes were taken back."""
    regular = falling_back.one(POOL, "azure-gpufallback").inputs
    assert (regular["scaleSetPriority"], regular["availabilityZones"]) == ("Regular", ["3"])
    assert (regular["minCount"], regular["maxCount"]) == (0, 1)
    assert regular["nodeTaints"] == [GPU_TAINT]
    # What a pool is beside it is no reason to change that one.
    assert one(falling_back, PAID).inputs == spot.one(POOL).inputs
    scaled, before = (each.one(CLUSTER).inputs for each in (falling_back, spot))
    profile = {**before["autoScalerProfile"], "expander": "priority"}
    assert scaled["autoScalerProfile"] == profile
    assert one(falling_back, PRIORITIES).inputs["metadata"]["namespace"] == "kube-system"


def test_jobs_and_the_device_plugin_fit_spot_and_regular_nodes(falling_back: Program) -> None:
    plugin = falling_back.one("kubernetes:apps/v1:DaemonSet").inputs["spec"]["template"]
    for pod in [*templates(falling_back.one(RUN)).values(), plugin]:
        assert pod["spec"]["nodeSelector"] == {"slipway-pool": "gpu"}
        tolerated = {each["key"] for each in pod["spec"]["tolerations"]}
        assert tolerated == {"sku", SPOT_PRIORITY}


def test_without_a_fallback_nothing_is_declared_for_one(spot: Program, production: Program) -> None:
    for program in (spot, production):
        assert "expander" not in program.one(CLUSTER).inputs["autoScalerProfile"]
        assert PRIORITIES.split()[1] not in {each.name for each in program.resources}
        assert "fallback" not in program.one("slipway:infra:GpuReady").inputs["pool"]


def test_job_images_are_pushed_to_the_registry_once_it_is_there(spot: Program) -> None:
    server = f"{spot.one(REGISTRY).inputs['registryName']}.azurecr.io"
    images = [each for each in spot.resources if each.type.startswith("slipway:images:")]
    assert images
    for image in images:
        target = image.inputs["target"]
        assert (target["kind"], target["server"], target["login"]) == ("registry", server, "azure")
        assert spot.one(REGISTRY).urn in spot.needs(image)


def test_images_that_are_there_are_not_made(production: Program) -> None:
    built = {each.inputs["name"] for each in production.of("slipway:images:Image")}
    assert "slipway-trainer" not in built


def test_images_on_azure_local_are_the_private_registrys(local: Program) -> None:
    server = LOCAL["registry"]["server"]
    made = [each for each in local.resources if each.type.startswith("slipway:images:")]
    assert {each.name for each in made} >= {"slipway-trainer", "slipway-trainer-cuda"}
    for each in made:
        assert each.inputs["target"]["kind"] == "registry"
        assert each.inputs["target"]["server"] == server
    deployment = local.one("kubernetes:apps/v1:Deployment")
    [operator] = deployment.inputs["spec"]["template"]["spec"]["containers"]
    assert operator["image"].startswith(f"{server}/")


ADMIN = ("b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b", "azure-id")


@pytest.mark.parametrize(
    ("principal", "given"),
    [
        # Nodes pull images; the control plane uses the subnet.
        ("azure-nodes-principal", {("7f951dda-4ed3-4680-a7ca-43fe172d538d", "azure-id")}),
        ("azure-control-principal", {("4d97b98b-1d4f-4787-a291-c67834d212e7", "azure-nodes-id")}),
        # Jobs read data and write artifacts, without a key.
        (
            "azure-jobs-principal",
            {
                ("2a2b9908-6ea1-4ae2-8e65-a410df84e7d1", "azure-data-id"),
                ("ba92f5b4-2d11-453d-a403-e96b0029c9fe", "azure-artifacts-id"),
            },
        ),
    ],
)
def test_the_clusters_own_identities_have_these_roles_and_no_other(
    principal: str, given: set[tuple[str, str]], spot: Program
) -> None:
    assert roles(spot, principal) == given


def test_roles_are_there_in_time(spot: Program) -> None:
    control = {each.urn for each in spot.of(ROLE)
               if each.inputs["principalId"] == "azure-control-principal"}  # fmt: skip
    assert control <= spot.needs(spot.one(CLUSTER))
    assert {each.urn for each in spot.of(ROLE)} <= spot.needs(spot.one(ACCESS))


def test_only_the_configured_principals_are_administrators(spot: Program) -> None:
    own = {f"azure-{part}-principal" for part in ("control", "nodes", "jobs")}
    kinds = {each.inputs["principalId"]: each.inputs["principalType"] for each in spot.of(ROLE)}
    assert {each: kinds[each] for each in kinds.keys() - own} == {ME: "User", GROUP: "Group"}
    assert ADMIN in roles(spot, ME)


def test_storage_answers_the_nodes_and_who_may_reach_the_cluster(spot: Program) -> None:
    rules = spot.one(ACCOUNT).inputs["networkRuleSet"]
    assert rules["defaultAction"] == "Deny"
    (nodes,) = rules["virtualNetworkRules"]
    assert nodes["virtualNetworkResourceId"] == "azure-nodes-id"
    # A single address is written without its prefix, which the firewall refuses.
    allowed = [each["iPAddressOrRange"] for each in rules["ipRules"]]
    assert allowed == ["198.51.100.0/24", "192.0.2.7"]


def test_without_gpus_only_the_system_pool(declared: Declare, changed: Declare) -> None:
    """A stack on AKS or Azure Local without GPUs is declared."""
    program = declared("azure", cluster={**SPOT, "gpu": False}, jobs={"mnist-gloo": {}})
    assert program.of(POOL) == []
    assert system(program)["minCount"] == 1
    assert PRIORITIES.split()[1] not in {each.name for each in program.resources}
    program = changed("azure-stack", {"mnist-gloo": {}}, gpu=None)
    assert [each.name for each in program.of(GENERIC)] == ["azure-stack"]
    assert "this cluster has none" in program.outputs["skipped"]["mnist-nccl"]


def test_the_caller_is_the_default_admin(
    declared: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `admins` the caller is the administrator."""
    nameless = {key: value for key, value in SPOT.items() if key != "admins"}
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(pulumi.RunError, match="your account can't be read: `az` is not install"):
        declared("azure", cluster=nameless)
    (tmp_path / "bin").mkdir()
    recorded_az.install(tmp_path / "bin")
    recorded_kubelogin.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    program = declared("azure", cluster=nameless)
    assert ADMIN in roles(program, recorded_az.ME)
    assert "adminGroupObjectIDs" not in program.one(CLUSTER).inputs["aadProfile"]


def test_cluster_registry_and_storage_keep_diagnostic_logs(spot: Program) -> None:
    workspace = spot.one("azure-native:operationalinsights:Workspace")
    assert workspace.inputs["retentionInDays"] == 30
    assert workspace.inputs["workspaceCapping"] == {"dailyQuotaGb": 1}
    kept = {each.name: each.inputs for each in spot.of("azure-native:monitor:DiagnosticSetting")}
    assert kept.keys() == {"azure-cluster", "azure-registry", "azure-blobs"}
    assert {each["workspaceId"] for each in kept.values()} == {f"{workspace.name}-id"}
    categories = {each["category"] for each in kept["azure-cluster"]["logs"] if each["enabled"]}
    assert {"kube-audit-admin", "guard", "cluster-autoscaler"} <= categories


def test_the_budget_alerts_before_and_when_it_is_spent(spot: Program) -> None:
    budget = spot.one(BUDGET).inputs
    assert (budget["amount"], budget["timeGrain"]) == (100, "Monthly")
    alerts = budget["notifications"].values()
    limits = {(each["thresholdType"], each["threshold"]) for each in alerts}
    assert limits == {("Actual", 80), ("Actual", 100), ("Forecasted", 100)}
    for alert in alerts:
        assert alert["enabled"] is True
        assert alert["contactEmails"] == ["you@example.org"]


def test_a_budget_can_be_declined(production: Program) -> None:
    assert production.of(BUDGET) == []


def test_adminkubeconfig_needs_local_accounts(declared: Declare) -> None:
    program = declared("azure", cluster={**SPOT, "adminKubeconfig": True})
    assert program.one(CLUSTER).inputs["disableLocalAccounts"] is False


def test_a_stack_on_this_machine_never_loads_azures_sdk(root: Path) -> None:
    code = (
        "import sys, pathlib, pytest; from tests.program.declared import declare; "
        "declare(pathlib.Path('stacks/dev.yaml'), pytest.MonkeyPatch()); "
        "print([name for name in sys.modules if name.startswith('pulumi_azure')])"
    )
    command = [sys.executable, "-c", code]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout.strip()) == (0, "[]"), finished.stderr


def test_jobs_are_that_identity_to_azure(spot: Program) -> None:
    account = spot.one("kubernetes:core/v1:ServiceAccount", "slipway-job").inputs["metadata"]
    assert account["annotations"]["azure.workload.identity/client-id"] == "azure-jobs-client"
    for template in templates(spot.one(RUN)).values():
        assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_only_the_configured_ranges_reach_the_machines_by_ssh(changed: Declare) -> None:
    program = changed("azure-stack", sshFrom=["10.0.5.0/24", "10.0.6.0/24"])
    allowed = at(one(program, INSTANCE), "properties.clusterVMAccessProfile")
    assert allowed == {"authorizedIPRanges": "10.0.5.0/24,10.0.6.0/24"}


def test_a_gpu_pool_of_one_size_is_set_to_it(local: Program, changed: Declare) -> None:
    # What the autoscaler has made of another is no difference.
    assert one(local, LOCAL_GPU).ignored == ("properties.count",)
    pool = {"size": "Standard_NC4_A2", "minNodes": 3, "maxNodes": 3}
    gpus = one(changed("azure-stack", gpu=pool), LOCAL_GPU)
    assert gpus.inputs["properties"]["enableAutoScaling"] is False
    assert gpus.inputs["properties"]["count"] == 3
    assert "minCount" not in gpus.inputs["properties"]
    assert gpus.ignored == ()


def test_another_gpu_pool_size_leaves_the_cluster(local: Program, changed: Declare) -> None:
    other = changed("azure-stack", gpu={**LOCAL["gpu"], "maxNodes": 4})
    assert one(other, LOCAL_GPU).inputs != one(local, LOCAL_GPU).inputs
    for resource in (ARC, NETWORK, RESOURCE_GROUP, INSTANCE):
        assert one(other, resource).inputs == one(local, resource).inputs


def test_the_preview_knows_what_replaces_the_cluster(local: Program, changed: Declare) -> None:
    fixed = local.one(ACCESS).inputs["fixed"]
    assert set(fixed) == {
        *("name", "resourceGroup", "location", "customLocation", "logicalNetwork", "pods"),
        *("sshKey", "controlPlane.size", "controlPlane.address", "system.size", "entra.azureRbac"),
    }
    network, entra = {**SITE, "vlan": 7}, {**LOCAL["entra"], "azureRbac": False}
    program = changed("azure-stack", pods="10.9.0.0/16", logicalNetwork=network, entra=entra)
    other = program.one(ACCESS).inputs["fixed"]
    differing = {key for key in other if other[key] != fixed[key]}
    assert differing == {"pods", "logicalNetwork", "entra.azureRbac"}
    assert "vlan 7" in other["logicalNetwork"]


def test_a_preview_takes_no_token(changed: Declare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    assert "token" not in changed("azure-stack").one(LISTED).inputs


def test_a_network_and_a_group_that_are_there_are_used_and_not_made(changed: Declare) -> None:
    there = (
        f"/subscriptions/{LOCAL['subscription']}/resourceGroups/site"
        "/providers/Microsoft.AzureStackHCI/logicalNetworks/aks"
    )
    program = changed("azure-stack", logicalNetwork=there, resourceGroup="ours", controlPlane=None)
    assert not program.of(NETWORK)
    assert not program.of(RESOURCE_GROUP)
    subnets = at(one(program, INSTANCE), f"{MACHINES}.infraNetworkProfile.vnetSubnetIds")
    assert subnets == [there]
    assert program.one(ARC).inputs["resourceGroupName"] == "ours"
