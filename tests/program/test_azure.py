"""An AKS cluster as the program declares it: each property of safety and of cost by itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from core import toolchain
from tests.doubles import recorded_az, recorded_kubelogin
from tests.program.declared import ABSENT, Declared, Program, at, declare, templates, untranslated

ME, GROUP = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
CLUSTER = "azure-native:containerservice:ManagedCluster"
POOL = "azure-native:containerservice:AgentPool"
IDENTITY = "azure-native:managedidentity:UserAssignedIdentity"
ROLE = "azure-native:authorization:RoleAssignment"
REGISTRY = "azure-native:containerregistry:Registry"
ACCOUNT = "azure-native:storage:StorageAccount"
BLOBS = "azure-native:storage:BlobContainer"
DIAGNOSTICS = "azure-native:monitor:DiagnosticSetting"
BUDGET = "azure-native:consumption:Budget"
ACCESS = "slipway:clusters:Access"
PRIORITIES = "cluster-autoscaler-priority-expander"

SPOT: dict[str, Any] = {
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
PRODUCTION: dict[str, Any] = {
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
}


def declared(
    cluster: dict[str, Any], folder: Path, patch: pytest.MonkeyPatch, job: str = "mnist-nccl"
) -> Program:
    # Without the operator's manifests there is no program; this says what to do.
    toolchain.path("training-operator-manifests")
    template = folder / "azure.yaml"
    config = {"slipway:cluster": cluster, "slipway:jobs": {job: {}}}
    template.write_text(yaml.safe_dump({"config": config}))
    return declare(template, patch)


@pytest.fixture(scope="module")
def spot(tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch) -> Program:
    """A stack on spot nodes, with a public address that few may reach."""
    return declared(SPOT, tmp_path_factory.mktemp("spot"), machine)


@pytest.fixture(scope="module")
def falling_back(tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch) -> Program:
    """The same stack, with regular nodes for jobs where Azure has no spot node."""
    spot = {**SPOT["gpu"]["spot"], "fallback": {"maxNodes": 1, "zones": ["3"]}}
    stack = {**SPOT, "gpu": {**SPOT["gpu"], "spot": spot}}
    return declared(stack, tmp_path_factory.mktemp("falling_back"), machine)


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory, machine: pytest.MonkeyPatch) -> Program:
    """A protected stack with no public address, nodes of its own for CPUs, and the GPU operator."""
    return declared(PRODUCTION, tmp_path_factory.mktemp("production"), machine)


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
CPU, PAID = f"{POOL} azure-cpu", f"{POOL} azure-gpu"
TRUST = "azure-native:managedidentity:FederatedIdentityCredential"
UPGRADES = "azure-native:containerservice:MaintenanceConfiguration"
KEPT = "azure-native:storage:BlobServiceProperties"
WEEK = {"enabled": True, "days": 7}
SUNDAY = {"weekly": {"dayOfWeek": "Sunday", "intervalWeeks": 1}}
RANGES = ["198.51.100.0/24", "192.0.2.7/32"]
SPOT_TAINT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
JOB_SUBJECT = "system:serviceaccount:slipway-jobs:slipway-job"
ENTRA = {"managed": True, "enableAzureRBAC": True, "adminGroupObjectIDs": [GROUP]}
PRIVATE = {"enablePrivateCluster": True, "enablePrivateClusterPublicFQDN": False,
           "privateDNSZone": "system", "disableRunCommand": True}  # fmt: skip
FIXED = {"name": "slipway-azure", "resourceGroup": "slipway-azure", "location": "westeurope",
         "network.pods": "10.244.0.0/16", "network.services": "10.41.0.0/16"}  # fmt: skip
HOURS = {"durationHours": 4, "startTime": "02:00", "utcOffset": "+00:00", "schedule": SUNDAY}
COUNTED = {"name": "ResourceGroupName", "operator": "In",
           "values": ["slipway-azure", "slipway-azure-nodes"]}  # fmt: skip


@pytest.mark.parametrize(
    ("promise", "stack", "resource", "path", "value"),
    [
        ("network policies hold", "spot", CLUSTER, "networkProfile.networkPolicy", "cilium"),
        ("network policies hold", "spot", CLUSTER, "networkProfile.networkDataplane", "cilium"),
        ("the system pool is one", "spot", CLUSTER, f"{SYSTEM}.mode", "System"),
        ("the system pool has a node at least", "spot", CLUSTER, f"{SYSTEM}.minCount", 1),
        ("the system pool begins with a node", "spot", CLUSTER, f"{SYSTEM}.count", 1),
        ("the system pool is not spot", "spot", CLUSTER, f"{SYSTEM}.scaleSetPriority", ABSENT),
        ("without CPU nodes it takes other pods", "spot", CLUSTER, f"{SYSTEM}.nodeTaints", ABSENT),
        (
            *("with CPU nodes it takes none", "production", CLUSTER, f"{SYSTEM}.nodeTaints"),
            ["CriticalAddonsOnly=true:NoSchedule"],
        ),
        ("there is a CPU node at least", "production", CPU, "minCount", 1),
        ("GPU nodes are scaled", "spot", POOL, "enableAutoScaling", True),
        ("GPU nodes may be none", "spot", POOL, "minCount", 0),
        ("GPU nodes begin with none", "spot", POOL, "count", 0),
        ("GPU nodes have a limit", "spot", POOL, "maxCount", 3),
        ("GPU nodes have taints", "spot", POOL, "nodeTaints", ["sku=gpu:NoSchedule", SPOT_TAINT]),
        ("GPU nodes have a label", "spot", POOL, "nodeLabels.slipway-pool", "gpu"),
        ("GPU nodes have the size", "spot", POOL, "vmSize", "Standard_NC4as_T4_v3"),
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
        ("a pull is retried", "spot", "slipway:jobs:PyTorchJob", "refusedPulls.seconds", 900),
        ("idle nodes go", "spot", CLUSTER, "autoScalerProfile.scaleDownUnneededTime", "10m"),
        ("accounts have tokens", "spot", CLUSTER, "oidcIssuerProfile", {"enabled": True}),
        (
            *("accounts are identities", "spot", CLUSTER, "securityProfile.workloadIdentity"),
            {"enabled": True},
        ),
        ("jobs have an identity", "spot", TRUST, "resourceName", "azure-jobs"),
        ("only pods of jobs are it", "spot", TRUST, "subject", JOB_SUBJECT),
        ("only this cluster vouches", "spot", TRUST, "issuer", "https://issuer.example.org/"),
        ("it is for Entra", "spot", TRUST, "audiences", ["api://AzureADTokenExchange"]),
        ("Entra knows people", "spot", CLUSTER, "aadProfile", ENTRA),
        ("there is no other administrator", "spot", CLUSTER, "disableLocalAccounts", True),
        ("roles decide", "spot", CLUSTER, "enableRBAC", True),
        (
            *("the API server answers these alone", "spot", CLUSTER, "apiServerAccessProfile"),
            {"authorizedIPRanges": RANGES, "disableRunCommand": True},
        ),
        ("no public address", "production", CLUSTER, "apiServerAccessProfile", PRIVATE),
        ("the registry has no admin", "spot", REGISTRY, "adminUserEnabled", False),
        ("the registry is not public", "spot", REGISTRY, "anonymousPullEnabled", False),
        ("storage has no key", "spot", ACCOUNT, "allowSharedKeyAccess", False),
        ("storage has no public blob", "spot", ACCOUNT, "allowBlobPublicAccess", False),
        ("storage is encrypted on its way", "spot", ACCOUNT, "enableHttpsTrafficOnly", True),
        ("storage is encrypted on its way", "spot", ACCOUNT, "minimumTlsVersion", "TLS1_2"),
        ("no blob is public", "spot", f"{BLOBS} azure-data", "publicAccess", "None"),
        ("no blob is public", "spot", f"{BLOBS} azure-artifacts", "publicAccess", "None"),
        ("blobs come back for a week", "spot", KEPT, "deleteRetentionPolicy", WEEK),
        ("containers come back, too", "spot", KEPT, "containerDeleteRetentionPolicy", WEEK),
        ("uptime is free", "spot", CLUSTER, "sku", {"name": "Base", "tier": "Free"}),
        ("or paid for", "production", CLUSTER, "sku", {"name": "Base", "tier": "Standard"}),
        (
            *("nodes get new images and no other Kubernetes", "spot", CLUSTER),
            "autoUpgradeProfile",
            {"nodeOSUpgradeChannel": "NodeImage", "upgradeChannel": "none"},
        ),
        # AKS takes the hours of node images from the one of this name.
        ("in these hours", "spot", UPGRADES, "configName", "aksManagedNodeOSUpgradeSchedule"),
        ("in these hours", "spot", UPGRADES, "maintenanceWindow", HOURS),
        ("a preview knows what replaces the cluster", "spot", ACCESS, "fixed", FIXED),
        ("the budget is the subscription's", "spot", BUDGET, "scope", f"/subscriptions/{ME}"),
        ("the budget counts the nodes' group", "spot", BUDGET, "filter.dimensions", COUNTED),
        ("nodes are there", "spot", CLUSTER, "nodeResourceGroup", "slipway-azure-nodes"),
    ],
)
def test_a_property_is_declared_as_promised(
    promise: str, stack: str, resource: str, path: str, value: Any, request: pytest.FixtureRequest
) -> None:
    program: Program = request.getfixturevalue(stack)
    token, _, name = resource.partition(" ")
    assert at(program.one(token, name or None), path) == value, promise


def test_all_but_the_subscriptions_own_is_in_one_resource_group(spot: Program) -> None:
    group = spot.one("azure-native:resources:ResourceGroup")
    assert group.inputs["resourceGroupName"] == "slipway-azure"
    placed = [each for each in azure(spot) if "resourceGroupName" in each.inputs]
    assert {each.inputs["resourceGroupName"] for each in placed} == {"slipway-azure"}
    assert all(group.urn in spot.needs(each) for each in azure(spot) if each != group)


def test_whatever_takes_tags_has_them(spot: Program) -> None:
    wanted = {"managed-by": "slipway", "slipway-cluster": "azure", "team": "vision"}
    tagged = {each.type for each in azure(spot) if each.inputs.get("tags") == wanted}
    assert tagged == {
        "azure-native:resources:ResourceGroup",
        "azure-native:network:NetworkSecurityGroup",
        "azure-native:network:VirtualNetwork",
        "azure-native:operationalinsights:Workspace",
        IDENTITY,
        REGISTRY,
        ACCOUNT,
        CLUSTER,
        POOL,
    }
    assert system(spot)["tags"] == wanted


def test_every_input_is_one_that_the_sdk_knows(
    spot: Program, falling_back: Program, production: Program
) -> None:
    """What is declared on Azure has no key that the SDK does not know."""
    declared = [each for program in (spot, falling_back, production) for each in azure(program)]
    assert {name for each in declared for name in untranslated(each.inputs)} == set()
    # It is found where it is.
    misspelt = {"agentPoolProfiles": [{"vmSize": "Standard_D4s_v5", "os_disk_sise": 30}]}
    assert [*untranslated(misspelt)] == ["os_disk_sise"]


def test_nodes_have_a_subnet_that_nothing_outside_reaches(spot: Program) -> None:
    guard = spot.one("azure-native:network:NetworkSecurityGroup")
    assert "securityRules" not in guard.inputs
    subnet = spot.one("azure-native:network:Subnet")
    assert subnet.inputs["networkSecurityGroup"] == {"id": f"{guard.name}-id"}
    for pool in (system(spot), spot.one(POOL).inputs):
        assert pool["vnetSubnetID"] == f"{subnet.name}-id"
        assert pool["enableNodePublicIP"] is False


def test_how_many_nodes_there_are_is_the_autoscalers_business(spot: Program) -> None:
    assert "count" in spot.one(POOL).ignored
    assert "agentPoolProfiles" in spot.one(CLUSTER).ignored


def test_regular_nodes_that_take_over_are_grown_last(spot: Program, falling_back: Program) -> None:
    """A job goes on after its spot nodes were taken back."""
    regular = falling_back.one(POOL, "azure-gpufallback").inputs
    assert (regular["scaleSetPriority"], regular["availabilityZones"]) == ("Regular", ["3"])
    assert (regular["minCount"], regular["maxCount"]) == (0, 1)
    assert regular["nodeTaints"] == ["sku=gpu:NoSchedule"]
    # What a pool is beside it is no reason to change that one.
    assert falling_back.one(POOL, "azure-gpu").inputs == spot.one(POOL).inputs
    profile = spot.one(CLUSTER).inputs["autoScalerProfile"]
    assert falling_back.one(CLUSTER).inputs["autoScalerProfile"] == {
        **profile,
        "expander": "priority",
    }
    order = falling_back.one("kubernetes:core/v1:ConfigMap", PRIORITIES)
    assert order.inputs["metadata"]["namespace"] == "kube-system"
    assert falling_back.one(ACCESS).urn in falling_back.needs(order)
    assert order.urn in falling_back.needs(falling_back.one("slipway:jobs:PyTorchJob"))


def test_jobs_and_the_device_plugin_fit_spot_and_regular_nodes(falling_back: Program) -> None:
    of_jobs = templates(falling_back.one("slipway:jobs:PyTorchJob")).values()
    plugin = falling_back.one("kubernetes:apps/v1:DaemonSet").inputs["spec"]["template"]
    for pod in [each["spec"] for each in (*of_jobs, plugin)]:
        assert pod["nodeSelector"] == {"slipway-pool": "gpu"}
        assert {each["key"] for each in pod["tolerations"]} == {
            "sku",
            "kubernetes.azure.com/scalesetpriority",
        }


def test_without_a_fallback_nothing_is_declared_for_one(spot: Program, production: Program) -> None:
    for program in (spot, production):
        assert "expander" not in program.one(CLUSTER).inputs["autoScalerProfile"]
        assert PRIORITIES not in {each.name for each in program.resources}
        facts = program.one("slipway:infra:GpuReady").inputs["pool"]
        assert "fallback" not in facts


def test_another_size_replaces_the_pool_but_not_the_cluster(spot: Program) -> None:
    assert {"vmSize", "osDiskType", "scaleSetPriority"} <= set(spot.one(POOL).replaced_on)
    assert spot.one(CLUSTER).replaced_on == ()


def test_nodes_may_pull_images_and_nothing_else(spot: Program) -> None:
    pull = "7f951dda-4ed3-4680-a7ca-43fe172d538d"
    assert roles(spot, "azure-nodes-principal") == {(pull, "azure-id")}
    assert "identityProfile" not in spot.one(CLUSTER).inputs, "AKS refuses one without its role"


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


def test_the_control_plane_may_use_the_subnet(spot: Program) -> None:
    network = "4d97b98b-1d4f-4787-a291-c67834d212e7"
    assert roles(spot, "azure-control-principal") == {(network, "azure-nodes-id")}
    (granted,) = (
        each.urn
        for each in spot.of(ROLE)
        if each.inputs["principalId"] == "azure-control-principal"
    )
    assert granted in spot.needs(spot.one(CLUSTER))


def test_storage_has_a_container_for_data_and_one_for_artifacts(spot: Program) -> None:
    assert {each.inputs["containerName"] for each in spot.of(BLOBS)} == {"data", "artifacts"}


def test_storage_answers_the_nodes_and_who_may_reach_the_cluster(spot: Program) -> None:
    rules = spot.one(ACCOUNT).inputs["networkRuleSet"]
    assert rules["defaultAction"] == "Deny"
    (nodes,) = rules["virtualNetworkRules"]
    assert nodes["virtualNetworkResourceId"] == "azure-nodes-id"
    # A single address is written without its prefix, which the firewall refuses.
    allowed = [each["iPAddressOrRange"] for each in rules["ipRules"]]
    assert allowed == ["198.51.100.0/24", "192.0.2.7"]


def test_jobs_read_data_and_write_artifacts_without_a_key(spot: Program) -> None:
    reader, contributor = (
        "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
        "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    )
    assert roles(spot, "azure-jobs-principal") == {
        (reader, "azure-data-id"),
        (contributor, "azure-artifacts-id"),
    }


def test_only_the_configured_principals_are_administrators(spot: Program) -> None:
    own = {f"azure-{part}-principal" for part in ("control", "nodes", "jobs")}
    others = {each.inputs["principalId"] for each in spot.of(ROLE)} - own
    assert others == {ME, GROUP}
    admin = "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b"
    assert (admin, "azure-id") in roles(spot, ME)
    kinds = {each.inputs["principalId"]: each.inputs["principalType"] for each in spot.of(ROLE)}
    assert (kinds[ME], kinds[GROUP]) == ("User", "Group")


def test_without_gpus_only_the_system_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack on AKS without GPUs is declared."""
    program = declared({**SPOT, "gpu": False}, tmp_path, monkeypatch, "mnist-gloo")
    assert program.of(POOL) == []
    assert system(program)["minCount"] == 1
    assert PRIORITIES not in {each.name for each in program.resources}


def test_the_caller_is_the_default_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `admins` the caller is the administrator."""
    nameless = {key: value for key, value in SPOT.items() if key != "admins"}
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(pulumi.RunError, match="your account can't be read: `az` is not install"):
        declared(nameless, tmp_path, monkeypatch)
    (tmp_path / "bin").mkdir()
    recorded_az.install(tmp_path / "bin")
    recorded_kubelogin.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    program = declared(nameless, tmp_path, monkeypatch)
    admin = "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b"
    assert (admin, "azure-id") in roles(program, recorded_az.ME)
    assert "adminGroupObjectIDs" not in program.one(CLUSTER).inputs["aadProfile"]


def test_cluster_registry_and_storage_keep_diagnostic_logs(spot: Program) -> None:
    workspace = spot.one("azure-native:operationalinsights:Workspace")
    assert workspace.inputs["retentionInDays"] == 30
    assert workspace.inputs["workspaceCapping"] == {"dailyQuotaGb": 1}
    kept = {each.name: each.inputs for each in spot.of(DIAGNOSTICS)}
    assert kept.keys() == {"azure-cluster", "azure-registry", "azure-blobs"}
    assert {each["workspaceId"] for each in kept.values()} == {f"{workspace.name}-id"}
    categories = {each["category"] for each in kept["azure-cluster"]["logs"] if each["enabled"]}
    assert {"kube-audit-admin", "guard", "cluster-autoscaler"} <= categories


def test_the_budget_alerts_before_and_when_it_is_spent(spot: Program) -> None:
    budget = spot.one(BUDGET)
    assert (budget.inputs["amount"], budget.inputs["timeGrain"]) == (100, "Monthly")
    alerts = budget.inputs["notifications"].values()
    assert {(each["thresholdType"], each["threshold"]) for each in alerts} == {
        ("Actual", 80),
        ("Actual", 100),
        ("Forecasted", 100),
    }
    for alert in alerts:
        assert alert["enabled"] is True
        assert alert["contactEmails"] == ["you@example.org"]


def test_the_budgets_first_month_is_no_change_in_the_next(spot: Program) -> None:
    assert "timePeriod" in spot.one(BUDGET).ignored


def test_a_budget_can_be_declined(production: Program) -> None:
    assert production.of(BUDGET) == []


def test_adminkubeconfig_needs_local_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = declared({**SPOT, "adminKubeconfig": True}, tmp_path, monkeypatch)
    assert program.one(CLUSTER).inputs["disableLocalAccounts"] is False


def test_the_cluster_first_has_nodes_and_lets_the_person_in(spot: Program) -> None:
    access = spot.one(ACCESS)
    rights = {each.urn for each in spot.of(ROLE)}
    assert {spot.one(CLUSTER).urn, spot.one(POOL).urn, *rights} <= spot.needs(access)


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
    for template in templates(spot.one("slipway:jobs:PyTorchJob")).values():
        assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"
