"""Clusters of Azure and of Azure Local as the program declares them, property by property."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from clusters.azure import checks
from tests.doubles import recorded_az, recorded_kubelogin
from tests.program.declared import (
    Declare,
    Declared,
    Program,
    annotations,
    declare,
    secret,
    template,
    templates,
)

before_update = checks.before_update
ME, GROUP = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
PRIORITIES = "ConfigMap cluster-autoscaler-priority-expander"
JOBS_IDENTITY = "UserAssignedIdentity azure-jobs"
INSTANCE, LOCAL_GPU = "Resource azure-stack", "Resource azure-stack-gpu"
SPOT_TAINT = "kubernetes.azure.com/scalesetpriority"
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
LOCAL = template("azure-stack")["cluster"]
THERE = (
    f"/subscriptions/{LOCAL['subscription']}/resourceGroups/site"
    "/providers/Microsoft.AzureStackHCI/logicalNetworks/aks"
)
FALLBACK = {"maxPrice": 0.25, "fallback": {"maxNodes": 1, "zones": ["3"]}}
CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "spot": SPOT,
    # Regular nodes for jobs where Azure has no spot node.
    "falling_back": {**SPOT, "gpu": {**SPOT["gpu"], "spot": FALLBACK}},
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
        "images": {"trainerCuda": "example.azurecr.io/trainer:1"},
    },
    "local": {**LOCAL, "tags": {"team": "vision"}, "sshFrom": ["10.0.5.0/24", "10.0.6.0/24"]},
    # Of one size, in a group and a network that are there.
    "local_fixed": {
        **LOCAL,
        "gpu": {"size": "Standard_NC4_A2", "minNodes": 3, "maxNodes": 3},
        "resourceGroup": "ours",
        "logicalNetwork": THERE,
        "controlPlane": {},
    },
}

Programs = Callable[[str], Program]


@pytest.fixture(scope="module")
def programs(machine: pytest.MonkeyPatch) -> Programs:
    """Declare a stack of CLUSTERS, by its key there."""

    @cache
    def program(name: str) -> Program:
        is_local = name.startswith("local")
        stack, job = ("azure-stack", "mnist-gloo") if is_local else ("azure", "mnist-nccl")
        jobs: Mapping[str, Any] = {job: {}, "mnist-nccl": {}}
        return declare({"cluster": CLUSTERS[name], "jobs": jobs}, machine, stack=stack)

    return program


@pytest.fixture
def spot(programs: Programs) -> Program:
    return programs("spot")


@pytest.fixture
def local(programs: Programs) -> Program:
    return programs("local")


def one(program: Program, resource: str) -> Declared:
    """Return a resource by its type and, where there are more of it, its name."""
    kind, _, name = resource.partition(" ")
    return program.one(kind, name or None)


def azure(program: Program) -> list[Declared]:
    return program.starting("azure-native:")


def roles(program: Program, principal: str) -> set[tuple[str, str]]:
    """Return the ID of each role that a principal has, and what it has it to."""
    return {
        (each.inputs["roleDefinitionId"].rsplit("/", 1)[1], each.inputs["scope"])
        for each in program.of("RoleAssignment")
        if each.inputs["principalId"] == principal
    }


def like(promised: Any, found: Any) -> Any:
    """Return of what was found the keys that are promised, None for one that is not there."""
    if isinstance(promised, dict) and isinstance(found, dict):
        return {key: like(each, found.get(key)) for key, each in promised.items()}
    if isinstance(promised, list) and isinstance(found, list) and len(promised) == len(found):
        return [like(*pair) for pair in zip(promised, found, strict=True)]
    return found


PROMISED: Mapping[str, Mapping[str, Any]] = yaml.safe_load("""
spot:
  ManagedCluster:
    networkProfile: {networkPolicy: cilium, networkDataplane: cilium}
    # Without CPU nodes it takes other pods.
    agentPoolProfiles: [{mode: System, minCount: 1, count: 1, scaleSetPriority: ~, nodeTaints: ~,
      vnetSubnetID: azure-nodes-id, enableNodePublicIP: false}]
    autoScalerProfile: {scaleDownUnneededTime: 10m, expander: ~}
    oidcIssuerProfile: {enabled: true}
    securityProfile: {workloadIdentity: {enabled: true}}
    aadProfile: {managed: true, enableAzureRBAC: true,
      adminGroupObjectIDs: [99999999-2222-3333-4444-555555555555]}
    disableLocalAccounts: true
    enableRBAC: true
    apiServerAccessProfile: {authorizedIPRanges: [198.51.100.0/24, 192.0.2.7/32],
      disableRunCommand: true}
    sku: {name: Base, tier: Free}
    autoUpgradeProfile: {nodeOSUpgradeChannel: NodeImage, upgradeChannel: none}
    nodeResourceGroup: slipway-azure-nodes
    identityProfile: ~ # AKS refuses one without its role
  AgentPool: {enableAutoScaling: true, minCount: 0, count: 0, maxCount: 3,
    nodeTaints: ["sku=gpu:NoSchedule", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"],
    nodeLabels: {slipway-pool: gpu}, vmSize: Standard_NC4as_T4_v3, availabilityZones: ["1", "2"],
    scaleSetPriority: Spot, scaleSetEvictionPolicy: Delete, spotMaxPrice: 0.25,
    gpuProfile: {driver: Install}, vnetSubnetID: azure-nodes-id, enableNodePublicIP: false}
  NetworkSecurityGroup: {securityRules: ~}
  Subnet: {networkSecurityGroup: {id: azure-nodes-id}}
  GpuReady: {pool: {fallback: ~}}
  # A role takes a while to allow a pull.
  OperatorReady: {refusedPulls: {seconds: 900}}
  PyTorchJob: {refusedPulls: {seconds: 900}}
  FederatedIdentityCredential: {resourceName: azure-jobs, issuer: "https://issuer.example.org/",
    subject: "system:serviceaccount:slipway-jobs:slipway-job",
    audiences: ["api://AzureADTokenExchange"]}
  Registry: {adminUserEnabled: false, anonymousPullEnabled: false}
  StorageAccount:
    allowSharedKeyAccess: false
    allowBlobPublicAccess: false
    enableHttpsTrafficOnly: true
    minimumTlsVersion: TLS1_2
    networkRuleSet:
      defaultAction: Deny
      virtualNetworkRules: [{virtualNetworkResourceId: azure-nodes-id}]
      # A single address is written without its prefix, which the firewall refuses.
      ipRules: [{iPAddressOrRange: 198.51.100.0/24}, {iPAddressOrRange: 192.0.2.7}]
  BlobContainer azure-data: {publicAccess: None, containerName: data}
  BlobContainer azure-artifacts: {publicAccess: None, containerName: artifacts}
  BlobServiceProperties: {deleteRetentionPolicy: {enabled: true, days: 7},
    containerDeleteRetentionPolicy: {enabled: true, days: 7}}
  # AKS takes the hours of node images from the one of this name.
  MaintenanceConfiguration: {configName: aksManagedNodeOSUpgradeSchedule,
    maintenanceWindow: {durationHours: 4, startTime: "02:00", utcOffset: "+00:00",
      schedule: {weekly: {dayOfWeek: Sunday, intervalWeeks: 1}}}}
  Budget:
    amount: 100
    timeGrain: Monthly
    scope: /subscriptions/11111111-2222-3333-4444-555555555555
    filter: {dimensions: {name: ResourceGroupName, operator: In,
      values: [slipway-azure, slipway-azure-nodes]}}
  Workspace: {retentionInDays: 30, workspaceCapping: {dailyQuotaGb: 1}}
production:
  ManagedCluster:
    agentPoolProfiles: [{nodeTaints: ["CriticalAddonsOnly=true:NoSchedule"]}]
    apiServerAccessProfile: {enablePrivateCluster: true, enablePrivateClusterPublicFQDN: false,
      privateDNSZone: system, disableRunCommand: true}
    autoScalerProfile: {expander: ~}
    sku: {name: Base, tier: Standard}
  AgentPool azure-gpu: {osDiskType: Ephemeral, osDiskSizeGB: 256, scaleSetPriority: Regular,
    gpuProfile: {driver: None}}
  AgentPool azure-cpu: {minCount: 1}
falling_back:
  ManagedCluster: {autoScalerProfile: {scaleDownUnneededTime: 10m, expander: priority}}
  AgentPool azure-gpufallback: {scaleSetPriority: Regular, availabilityZones: ["3"], minCount: 0,
    maxCount: 1, nodeTaints: ["sku=gpu:NoSchedule"]}
  ConfigMap cluster-autoscaler-priority-expander: {metadata: {namespace: kube-system}}
local:
  ConnectedCluster: {kind: ProvisionedCluster, identity: {type: SystemAssigned},
    aadProfile: {enableAzureRBAC: true}}
  Resource azure-stack:
    resourceProviderNamespace: Microsoft.Kubernetes
    parentResourcePath: connectedClusters/azure-stack/providers/Microsoft.HybridContainerService
    resourceType: provisionedClusterInstances
    resourceName: default
    properties:
      networkProfile: {networkPolicy: calico}
      clusterVMAccessProfile: {authorizedIPRanges: "10.0.5.0/24,10.0.6.0/24"}
      cloudProviderProfile: {infraNetworkProfile: {vnetSubnetIds: [azure-stack-id]}}
      controlPlane: {count: 1, controlPlaneEndpoint: {hostIP: 10.20.0.10}}
  Resource azure-stack-gpu:
    resourceType: agentPools
    resourceName: gpu
    properties: {enableAutoScaling: true, minCount: 1, maxCount: 2, vmSize: Standard_NC4_A2,
      nodeTaints: ["sku=gpu:NoSchedule"], nodeLabels: {slipway.dev/pool: gpu}}
  LogicalNetwork:
    subnets: [{ipAllocationMethod: Static, addressPrefix: 10.20.0.0/24,
      ipPools: [{start: 10.20.0.20, end: 10.20.0.59}],
      routeTable: {routes: [{nextHopIpAddress: 10.20.0.1}]}}]
    dhcpOptions: {dnsServers: [10.20.0.2]}
    vmSwitchName: ConvergedSwitch(compute_management)
  AzureLocalKubeconfig: {operation: listUserKubeconfig, instance: azure-stack-id}
local_fixed:
  ConnectedCluster: {resourceGroupName: ours}
  Resource azure-stack-gpu: {properties: {enableAutoScaling: false, count: 3, minCount: ~}}
""")
"""By stack and resource: some of its inputs, `~` for what it does not have."""


@pytest.mark.parametrize(
    ("stack", "resource"), [(stack, each) for stack, all_ in PROMISED.items() for each in all_]
)
def test_properties_are_declared_as_promised(stack: str, resource: str, programs: Programs) -> None:
    promised = PROMISED[stack][resource]
    assert like(promised, one(programs(stack), resource).inputs) == promised


@pytest.mark.parametrize(
    ("stack", "resource", "earlier"),
    [
        ("falling_back", PRIORITIES, ["Access azure"]),
        ("falling_back", "PyTorchJob", [PRIORITIES]),
        # The cluster first has nodes, and lets the person in.
        ("spot", "Access azure", ["ManagedCluster", "AgentPool"]),
        ("local", INSTANCE, ["ConnectedCluster", "LogicalNetwork"]),
        ("local", LOCAL_GPU, [INSTANCE]),
        ("local", "AzureLocalKubeconfig", [INSTANCE]),
        ("local", "Access azure-stack", [INSTANCE, LOCAL_GPU]),
    ],
)
def test_a_resource_is_declared_after_what_it_needs(
    stack: str, resource: str, earlier: list[str], programs: Programs
) -> None:
    program = programs(stack)
    assert {one(program, each).urn for each in earlier} <= program.needs(one(program, resource))


def test_what_the_autoscaler_and_time_change_is_no_difference(
    spot: Program, programs: Programs
) -> None:
    assert "count" in spot.one("AgentPool").ignored
    assert "agentPoolProfiles" in spot.one("ManagedCluster").ignored
    assert "timePeriod" in spot.one("Budget").ignored, "its first month"
    assert one(programs("local"), LOCAL_GPU).ignored == ("properties.count",)
    assert one(programs("local_fixed"), LOCAL_GPU).ignored == ()


def test_only_what_the_service_cannot_update_is_replaced(spot: Program, local: Program) -> None:
    assert spot.one("ManagedCluster").replaced_on == set()
    assert {"vmSize", "osDiskType", "scaleSetPriority"} <= spot.one("AgentPool").replaced_on
    assert "properties.vmSize" in one(local, LOCAL_GPU).replaced_on
    updated = {"properties.kubernetesVersion", "properties.agentPoolProfiles[0].count"}
    assert "properties.cloudProviderProfile" in one(local, INSTANCE).replaced_on
    assert not updated & one(local, INSTANCE).replaced_on


@pytest.mark.parametrize(
    ("stack", "parent", "name", "inside"),
    [
        ("spot", "ManagedCluster", "resourceName", ["AgentPool", "MaintenanceConfiguration"]),
        ("spot", "VirtualNetwork", "virtualNetworkName", ["Subnet"]),
        ("spot", "StorageAccount", "accountName", ["BlobContainer", "BlobServiceProperties"]),
        ("spot", JOBS_IDENTITY, "resourceName", ["FederatedIdentityCredential"]),
        ("local", INSTANCE, "parentResourcePath", [LOCAL_GPU]),
    ],
)
def test_what_a_resource_takes_with_it_is_replaced_with_it(
    stack: str, parent: str, name: str, inside: list[str], programs: Programs
) -> None:
    """Azure deletes it too, and Pulumi replaces what has a property that depends on a resource."""
    program = programs(stack)
    kinds = [child.partition(" ") for child in inside]
    found = [each for kind, _, own in kinds for each in program.of(kind) if own in {"", each.name}]
    group = program.one("ResourceGroup")
    pairs = [(one(program, parent), name, each) for each in found]
    pairs += [(group, "resourceGroupName", each) for each in azure(program)
              if "resourceGroupName" in each.inputs and each != group]  # fmt: skip
    for above, key, each in pairs:
        assert above.urn in each.request.propertyDependencies[key].urns, each.urn


def untranslated(inputs: Any) -> Iterator[str]:
    """Yield the keys of inputs that Azure's SDK does not know, and so leaves as they are."""
    for key, value in inputs.items() if isinstance(inputs, dict) else ():
        yield from [key] if "_" in key else untranslated(value)
    for each in inputs if isinstance(inputs, list) else ():
        yield from untranslated(each)


@pytest.mark.parametrize("stack", CLUSTERS)
def test_every_input_is_one_that_the_sdk_knows(stack: str, programs: Programs) -> None:
    """No resource on Azure is declared with a key that the SDK does not know."""
    declared = azure(programs(stack))
    assert {name for each in declared for name in untranslated(each.inputs)} == set()


def test_all_but_the_subscriptions_own_is_in_one_resource_group(spot: Program) -> None:
    group = spot.one("ResourceGroup")
    placed = [each for each in azure(spot) if "resourceGroupName" in each.inputs]
    assert {each.inputs["resourceGroupName"] for each in placed} == {"slipway-azure"}
    assert all(group.urn in spot.needs(each) for each in azure(spot) if each != group)


def test_whatever_takes_tags_has_them(spot: Program, local: Program) -> None:
    wanted = {"managed-by": "slipway", "slipway-cluster": "azure", "team": "vision"}
    wanted["slipway-stack"] = "slipway/azure"
    tagged = {each.type.rpartition(":")[2] for each in azure(spot)
              if each.inputs.get("tags") == wanted}  # fmt: skip
    assert tagged == {
        *("AgentPool", "ManagedCluster", "NetworkSecurityGroup", "Registry", "ResourceGroup"),
        *("StorageAccount", "UserAssignedIdentity", "VirtualNetwork", "Workspace"),
    }
    assert spot.one("ManagedCluster").inputs["agentPoolProfiles"][0]["tags"] == wanted
    for kind in ("ResourceGroup", "ConnectedCluster", "LogicalNetwork"):
        assert local.one(kind).inputs["tags"] == wanted | {
            "slipway-cluster": "azure-stack",
            "slipway-stack": "slipway/azure-stack",
        }


def test_a_fallback_changes_no_spot_pool_and_jobs_fit_both(programs: Programs) -> None:
    """Regular nodes take over when Azure has no spot node."""
    program, spot = programs("falling_back"), programs("spot")
    assert one(program, "AgentPool azure-gpu").inputs == spot.one("AgentPool").inputs
    assert PRIORITIES.split()[1] not in {each.name for each in spot.resources}
    plugin = program.one("DaemonSet").inputs["spec"]["template"]
    for pod in [*templates(program.one("PyTorchJob")), plugin]:
        assert pod["spec"]["nodeSelector"] == {"slipway-pool": "gpu"}
        tolerated = {each["key"] for each in pod["spec"]["tolerations"]}
        assert tolerated == {"sku", SPOT_TAINT}


def test_images_are_pushed_to_the_registry_once_it_is_there(programs: Programs) -> None:
    """Those that are prebuilt are not."""
    spot, local, prebuilt = map(programs, ("spot", "local", "production"))
    registry = spot.one("Registry")
    here = {"kind": "registry", "login": "docker", "server": LOCAL["registry"]["server"]}
    server = f"{registry.inputs['registryName']}.azurecr.io"
    there = {"kind": "registry", "login": "azure", "server": server, "credentials": ME}
    for program, target in ((local, here), (spot, there), (prebuilt, there)):
        images = program.starting("slipway:images:")
        is_built = program is not prebuilt
        assert ("slipway-trainer-cuda" in {each.name for each in images}) == is_built
        for each in images:
            assert like(target, each.inputs["target"]) == target
    assert all(registry.urn in spot.needs(each) for each in spot.starting("slipway:images:"))
    [operator] = local.one("Deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert operator["image"].startswith(f"{LOCAL['registry']['server']}/")


ADMIN = ("b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b", "azure-id")


def test_each_principal_has_its_roles_in_time_and_no_other(spot: Program) -> None:
    # Nodes pull images; the control plane uses the subnet; jobs read data and write artifacts.
    own = {
        "azure-nodes-principal": {("7f951dda-4ed3-4680-a7ca-43fe172d538d", "azure-id")},
        "azure-control-principal": {("4d97b98b-1d4f-4787-a291-c67834d212e7", "azure-nodes-id")},
        "azure-jobs-principal": {
            ("2a2b9908-6ea1-4ae2-8e65-a410df84e7d1", "azure-data-id"),
            ("ba92f5b4-2d11-453d-a403-e96b0029c9fe", "azure-artifacts-id"),
        },
    }
    assert {each: roles(spot, each) for each in own} == own
    assert ADMIN in roles(spot, ME)
    given = spot.of("RoleAssignment")
    kinds = {each.inputs["principalId"]: each.inputs["principalType"] for each in given}
    assert {each: kinds[each] for each in kinds.keys() - own.keys()} == {ME: "User", GROUP: "Group"}
    assert {each.urn for each in given} <= spot.needs(one(spot, "Access azure"))
    control = [each for each in given if "control" in each.inputs["principalId"]]
    assert {each.urn for each in control} <= spot.needs(spot.one("ManagedCluster"))


def test_jobs_have_their_identity_on_azure(spot: Program) -> None:
    account = spot.one("ServiceAccount", "slipway-job")
    assert annotations(account)["azure.workload.identity/client-id"] == "azure-jobs-client"
    for pod in templates(spot.one("PyTorchJob")):
        assert pod["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_without_gpus_only_the_system_pool(declared: Declare, changed: Declare) -> None:
    """A stack on AKS or Azure Local without GPUs is declared."""
    program = declared("azure", cluster={**SPOT, "gpu": False}, jobs={"mnist-gloo": {}})
    assert program.of("AgentPool") == []
    assert program.one("ManagedCluster").inputs["agentPoolProfiles"][0]["minCount"] == 1
    program = changed("azure-stack", {"mnist-gloo": {}}, gpu=None)
    assert program.names("resources:Resource") == ["azure-stack"]
    assert "this cluster has none" in program.outputs["skipped"]["mnist-nccl"]


def test_the_caller_is_the_default_admin(
    declared: Declare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nameless = {key: value for key, value in SPOT.items() if key != "admins"}
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(pulumi.RunError, match="your account can't be read: `az` is not install"):
        declared("azure", cluster=nameless)
    recorded_az.install(tmp_path)
    recorded_kubelogin.install(tmp_path)
    program = declared("azure", cluster=nameless)
    assert ADMIN in roles(program, recorded_az.ME)
    assert "adminGroupObjectIDs" not in program.one("ManagedCluster").inputs["aadProfile"]


def test_cluster_registry_and_storage_keep_diagnostic_logs(spot: Program) -> None:
    kept = {each.name: each.inputs for each in spot.of("DiagnosticSetting")}
    assert kept.keys() == {"azure-cluster", "azure-registry", "azure-blobs"}
    workspace = spot.one("Workspace").name
    assert {each["workspaceId"] for each in kept.values()} == {f"{workspace}-id"}
    categories = {each["category"] for each in kept["azure-cluster"]["logs"] if each["enabled"]}
    assert {"kube-audit-admin", "guard", "cluster-autoscaler"} <= categories


def test_the_budget_alerts_before_and_when_it_is_spent(programs: Programs) -> None:
    alerts = programs("spot").one("Budget").inputs["notifications"].values()
    limits = {(each["thresholdType"], each["threshold"]) for each in alerts}
    assert limits == {("Actual", 80), ("Actual", 100), ("Forecasted", 100)}
    for alert in alerts:
        assert (alert["enabled"], alert["contactEmails"]) == (True, ["you@example.org"])
    assert programs("production").of("Budget") == [], "it was declined"


def test_the_sites_settings_reach_azure_local(local: Program) -> None:
    for resource in (INSTANCE, LOCAL_GPU, "LogicalNetwork"):
        place = {"type": "CustomLocation", "name": LOCAL["customLocation"]}
        assert one(local, resource).inputs["extendedLocation"] == place
    entra = local.one("ConnectedCluster").inputs["aadProfile"]
    assert entra["adminGroupObjectIDs"] == LOCAL["entra"]["adminGroups"]
    instance = one(local, INSTANCE).inputs
    keys = instance["properties"]["linuxProfile"]["ssh"]["publicKeys"]
    assert keys == [{"keyData": LOCAL["sshKey"]}]
    below = f"{instance['parentResourcePath']}/provisionedClusterInstances/default"
    assert one(local, LOCAL_GPU).inputs["parentResourcePath"] == below


def test_the_preview_knows_what_replaces_the_cluster(
    spot: Program, local: Program, changed: Declare
) -> None:
    aks = one(spot, "Access azure-settings").inputs
    assert aks["refused"] == {"subscription": ME, "network.subnet": "of its own, 10.40.0.0/20"}
    assert {"system", "system.zones", "system.osDisk"} == aks["left"].keys()
    assert f"--subscription {ME}" in aks["byHand"]
    assert aks["fixed"] == {
        **dict.fromkeys(("name", "resourceGroup"), "slipway-azure"),
        "location": "westeurope",
        "network.pods": "10.244.0.0/16",
        "network.services": "10.41.0.0/16",
    }
    settings = one(local, "Access azure-stack-settings")
    assert all(settings.urn in local.needs(each) for each in azure(local)[1:])
    fixed = settings.inputs["fixed"]
    assert set(fixed) == {
        *("name", "resourceGroup", "location", "customLocation", "logicalNetwork", "pods"),
        *("sshKey", "controlPlane.size", "controlPlane.address", "system.size", "entra.azureRbac"),
    }
    network, entra = {**LOCAL["logicalNetwork"], "vlan": 7}, {**LOCAL["entra"], "azureRbac": False}
    program = changed("azure-stack", pods="10.9.0.0/16", logicalNetwork=network, entra=entra)
    other = one(program, "Access azure-stack-settings").inputs["fixed"]
    differing = {key for key in other if other[key] != fixed[key]}
    assert differing == {"pods", "logicalNetwork", "entra.azureRbac"}
    assert "vlan 7" in other["logicalNetwork"]


def test_the_token_is_secret_and_a_preview_takes_none(
    local: Program, changed: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.one("AzureLocalKubeconfig").inputs["token"] == secret("a token")
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    assert "token" not in changed("azure-stack").one("AzureLocalKubeconfig").inputs


def test_a_network_and_a_group_that_are_there_are_used_and_not_made(programs: Programs) -> None:
    program = programs("local_fixed")
    assert program.of("LogicalNetwork") == program.of("ResourceGroup") == []
    machines = one(program, INSTANCE).inputs["properties"]["cloudProviderProfile"]
    assert machines["infraNetworkProfile"]["vnetSubnetIds"] == [THERE]


IDS = {
    "azure": "slipway-azure/providers/Microsoft.ContainerService/managedClusters/slipway-azure",
    "azure-stack": "slipway-azure-stack/azure-stack",
}
"""The end of the ID of each stack's cluster, after `/resourceGroups/`."""
both = pytest.mark.parametrize("stack", IDS)


@both
def test_resources_use_the_configured_subscription(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, tenant=ME)
    provider = program.one("providers:azure-native")
    assert (provider.inputs["subscriptionId"], provider.inputs["tenantId"]) == (ME, ME)
    assert azure(program)
    for each in azure(program):
        assert each.provider.startswith(provider.urn), each.urn


@both
def test_production_alone_is_protected(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, production=True)
    lock = program.one("ManagementLockByScope")
    # It is removed first, on the way to a stack that can be destroyed.
    assert [each for each in azure(program) if not each.request.protect] == [lock]
    assert (lock.inputs["level"], lock.inputs["scope"]) == ("CanNotDelete", f"{stack}-id")
    other = changed(stack, subscription=ME)
    assert [each.urn for each in azure(other) if each.request.protect] == []
    assert other.of("ManagementLockByScope") == []


@both
def test_the_kubeconfig_logs_in_as_the_person_who_is_let_in_first(
    changed: Declare, stack: str
) -> None:
    program = changed(stack, subscription=ME, tenant=ME)
    kubernetes = program.one("providers:kubernetes").inputs
    kubeconfig = kubernetes["kubeconfig"]
    assert kubeconfig == program.outputs["kubeconfig"] == secret(kubeconfig["value"])
    (user,) = yaml.safe_load(kubeconfig["value"])["users"]
    assert user["user"].keys() == {"exec"}
    assert user["user"]["exec"]["command"] == "kubelogin"
    assert user["user"]["exec"]["args"][:3] == ["get-token", "--login", "azurecli"]
    assert user["user"]["exec"]["args"][-2:] == ["--tenant-id", ME]
    # With another kubeconfig it is the same cluster.
    same = f"/subscriptions/{ME}/resourceGroups/{IDS[stack]}"
    assert kubernetes["clusterIdentifier"] == same
    access, objects = one(program, f"Access {stack}"), program.starting("kubernetes:")
    assert objects
    assert [each.urn for each in objects if access.urn not in program.needs(each)] == []


@both
def test_the_admin_kubeconfig_is_used_only_when_set(changed: Declare, stack: str) -> None:
    program = changed(stack, subscription=ME, adminKubeconfig=True)
    assert program.one("providers:kubernetes").inputs["kubeconfig"] == secret("an admin's")
    for cluster in program.of("ManagedCluster"):
        assert cluster.inputs["disableLocalAccounts"] is False


@both
def test_templates_declare_nothing(
    stack: str, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other tests of programs do without it.
    monkeypatch.setattr(checks, "before_update", before_update)
    with pytest.raises(pulumi.RunError, match="is a placeholder; replace it with") as caught:
        declare(template(stack), monkeypatch, stack=stack)
    assert f"Correct Pulumi.{stack}.yaml" in str(caught.value)
    assert made == []
