"""What belongs to a cluster: network, registry, storage, rights and logs."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from core.values import UNKNOWN
from scripts.offline.azure_recording.rules.rule import Inputs, Rule, listed, within
from scripts.offline.azure_recording.shapes import Finding

_LEARN = "https://learn.microsoft.com/"
_TAGGED = (
    "resources:ResourceGroup",
    "containerservice:ManagedCluster",
    "containerservice:AgentPool",
    "containerregistry:Registry",
    "storage:StorageAccount",
    "network:VirtualNetwork",
    "network:NetworkSecurityGroup",
    "network:NatGateway",
    "network:PublicIPAddress",
    "managedidentity:UserAssignedIdentity",
    "operationalinsights:Workspace",
    "monitor:ActionGroup",
)
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _tags(inputs: Inputs) -> Iterator[Finding]:
    tags = inputs.get("tags")
    if not isinstance(tags, dict):
        return
    if len(tags) > 50:
        yield Finding("tags", f"has {len(tags)} tags; 50 are allowed")
    for name, value in tags.items():
        if len(name) > 512 or re.search(r"[<>%&\\?/]", name):
            yield Finding(
                f'tags["{name}"]', "a name takes up to 512 characters and none of < > % & \\ ? /"
            )
        if isinstance(value, str) and len(value) > 256:
            yield Finding(f'tags["{name}"]', "a value takes up to 256 characters")


def _prefixes(inputs: Inputs) -> Iterator[Finding]:
    given = [("addressPrefix", inputs.get("addressPrefix"))]
    given += [
        (f"addressPrefixes[{index}]", each)
        for index, each in enumerate(listed(inputs, "addressPrefixes"))
    ]
    given += [
        (f"addressSpace.addressPrefixes[{index}]", each)
        for index, each in enumerate(listed(inputs, "addressSpace", "addressPrefixes"))
    ]
    for at, text in given:
        if isinstance(text, str) and ":" not in text and not _is_network(text):
            yield Finding(
                at, f"{text!r} is not allowed; it takes a range such as 10.0.0.0/16, 8 to 29 bits"
            )


def _registry_tier(inputs: Inputs) -> Iterator[Finding]:
    if within(inputs, "sku", "name") in {"Premium", UNKNOWN}:
        return
    for key, ordinary in (
        ("publicNetworkAccess", "Enabled"),
        ("zoneRedundancy", "Disabled"),
        ("networkRuleSet", None),
        ("dataEndpointEnabled", False),
    ):
        if inputs.get(key) not in {None, UNKNOWN} and inputs.get(key) != ordinary:
            yield Finding(key, "needs sku with name: Premium")


def _public_blobs(inputs: Inputs) -> Iterator[Finding]:
    kind, tier = inputs.get("kind"), inputs.get("accessTier")
    if tier is None and kind == "BlobStorage":
        yield Finding("accessTier", "is missing, and BlobStorage needs it")


def _role(inputs: Inputs) -> Iterator[Finding]:
    principal, role = inputs.get("principalId"), inputs.get("roleDefinitionId")
    if isinstance(principal, str) and not _GUID.fullmatch(principal):
        yield Finding("principalId", f"{principal!r} is not allowed; it takes an object's GUID")
    expected = "Microsoft.Authorization/roleDefinitions/"
    if isinstance(role, str):
        place, _, identity = role.rpartition(expected)
        if not place.startswith(("/", "")) or not _GUID.fullmatch(identity):
            yield Finding(
                "roleDefinitionId",
                f"{role!r} is not allowed; it takes /subscriptions/…/providers/{expected}<GUID>",
            )


def _credential(inputs: Inputs) -> Iterator[Finding]:
    audiences, issuer = inputs.get("audiences"), inputs.get("issuer")
    if isinstance(audiences, list) and len(audiences) != 1:
        yield Finding("audiences", f"has {len(audiences)}; exactly one is allowed")
    if isinstance(issuer, str) and not issuer.startswith("https://"):
        yield Finding("issuer", f"{issuer!r} is not allowed; it takes an https:// address")


def _retention(inputs: Inputs) -> Iterator[Finding]:
    days = inputs.get("retentionInDays")
    if isinstance(days, int) and not 30 <= days <= 730:
        yield Finding("retentionInDays", f"{days} is not allowed; it takes 30 to 730")


def _diagnostics(inputs: Inputs) -> Iterator[Finding]:
    targets = ("workspaceId", "storageAccountId", "eventHubAuthorizationRuleId",
               "marketplacePartnerId")  # fmt: skip
    if not any(inputs.get(key) for key in targets):
        yield Finding("workspaceId", f"is missing; a setting needs one of {', '.join(targets)}")
    logs = listed(inputs, "logs")
    if not inputs.get("logs") and not inputs.get("metrics"):
        yield Finding("logs", "is missing; a setting needs at least one log or metric")
    for index, log in enumerate(logs):
        if (within(log, "category") is None) == (within(log, "categoryGroup") is None):
            yield Finding(f"logs[{index}]", "takes exactly one of category and categoryGroup")


def _short_name(inputs: Inputs) -> Iterator[Finding]:
    name = inputs.get("groupShortName")
    if isinstance(name, str) and not 1 <= len(name) <= 12:
        yield Finding("groupShortName", f"{name!r} is not allowed; it takes 1 to 12 characters")


def _is_network(text: str) -> bool:
    try:
        return 8 <= IPv4Network(text).prefixlen <= 29
    except ValueError:
        return False


RULES = (
    Rule("tags", _TAGGED, f"{_LEARN}azure/azure-resource-manager/management/tag-resources", _tags),
    Rule(
        "address-prefix",
        ("network:VirtualNetwork", "network:Subnet"),
        f"{_LEARN}azure/virtual-network/virtual-networks-faq",
        _prefixes,
    ),
    Rule(
        "registry-tier",
        ("containerregistry:Registry",),
        f"{_LEARN}azure/container-registry/container-registry-skus",
        _registry_tier,
    ),
    Rule(
        "blob-tier",
        ("storage:StorageAccount",),
        f"{_LEARN}rest/api/storagerp/storage-accounts/create",
        _public_blobs,
    ),
    Rule(
        "role-assignment",
        ("authorization:RoleAssignment",),
        f"{_LEARN}rest/api/authorization/role-assignments/create",
        _role,
    ),
    Rule(
        "federated-credential",
        ("managedidentity:FederatedIdentityCredential",),
        f"{_LEARN}rest/api/managedidentity/federated-identity-credentials/create-or-update",
        _credential,
    ),
    Rule(
        "log-retention",
        ("operationalinsights:Workspace",),
        f"{_LEARN}azure/azure-monitor/logs/data-retention-configure",
        _retention,
    ),
    Rule(
        "diagnostics",
        ("monitor:DiagnosticSetting",),
        f"{_LEARN}azure/azure-monitor/essentials/diagnostic-settings",
        _diagnostics,
    ),
    Rule(
        "alert-name",
        ("monitor:ActionGroup",),
        f"{_LEARN}azure/azure-monitor/alerts/action-groups",
        _short_name,
    ),
)
