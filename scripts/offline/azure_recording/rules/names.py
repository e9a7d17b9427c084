"""Names: the length and the characters that each type of resource allows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.offline.azure_recording.rules.rule import Inputs, Rule
from scripts.offline.azure_recording.shapes import Finding

_RULES = (
    "https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules"
    "#microsoft{anchor}"
)
_NETWORK = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,%d}[A-Za-z0-9_])?"
_NETWORK_WORDS = (
    "1 to {} letters, digits, underscores, periods and hyphens, a letter or digit first, "
    "and a letter, digit or underscore last"
)
_GUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True)
class _Name:
    """How resources of one type may be called.

    Args:
        rule: The rule's name.
        type: Of the resource.
        property: That holds the name.
        pattern: Of the whole name.
        words: The same in words.
        source: The resource provider in the table of names, or a page of its own.
    """

    rule: str
    type: str
    property: str
    pattern: str
    words: str
    source: str


_NAMES = (
    _Name(
        "name-resource-group",
        "resources:ResourceGroup",
        "resourceGroupName",
        r"[\w.()-]{0,89}[\w()-]",
        "1 to 90 letters, digits, underscores, periods, parentheses and hyphens, no period last",
        "resources",
    ),
    _Name(
        "name-cluster",
        "containerservice:ManagedCluster",
        "resourceName",
        r"[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?",
        "1 to 63 letters, digits, underscores and hyphens, a letter or digit first and last",
        "containerservice",
    ),
    _Name(
        "name-registry",
        "containerregistry:Registry",
        "registryName",
        r"[A-Za-z0-9]{5,50}",
        "5 to 50 letters and digits",
        "containerregistry",
    ),
    _Name(
        "name-storage-account",
        "storage:StorageAccount",
        "accountName",
        r"[a-z0-9]{3,24}",
        "3 to 24 lower-case letters and digits",
        "storage",
    ),
    _Name(
        "name-blob-container",
        "storage:BlobContainer",
        "containerName",
        r"(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*",
        "3 to 63 lower-case letters, digits and single hyphens, a letter or digit first and last",
        "storage",
    ),
    _Name(
        "name-blob-service",
        "storage:BlobServiceProperties",
        "blobServicesName",
        "default",
        "default",
        "storage",
    ),
    _Name(
        "name-management-policy",
        "storage:ManagementPolicy",
        "managementPolicyName",
        "default",
        "default",
        "storage",
    ),
    _Name(
        "name-virtual-network",
        "network:VirtualNetwork",
        "virtualNetworkName",
        r"(?=.{2,64}$)" + _NETWORK % 62,
        _NETWORK_WORDS.format(64).replace("1 to", "2 to"),
        "network",
    ),
    *(
        _Name(rule, type_, name, _NETWORK % 78, _NETWORK_WORDS.format(80), "network")
        for rule, type_, name in (
            ("name-subnet", "network:Subnet", "subnetName"),
            ("name-security-group", "network:NetworkSecurityGroup", "networkSecurityGroupName"),
            ("name-nat-gateway", "network:NatGateway", "natGatewayName"),
            ("name-public-address", "network:PublicIPAddress", "publicIpAddressName"),
        )
    ),
    _Name(
        "name-identity",
        "managedidentity:UserAssignedIdentity",
        "resourceName",
        r"[A-Za-z0-9][A-Za-z0-9_-]{2,127}",
        "3 to 128 letters, digits, underscores and hyphens, a letter or digit first",
        "managedidentity",
    ),
    _Name(
        "name-federated-credential",
        "managedidentity:FederatedIdentityCredential",
        "federatedIdentityCredentialResourceName",
        r"[A-Za-z0-9][A-Za-z0-9_-]{2,119}",
        "3 to 120 letters, digits, underscores and hyphens, a letter or digit first",
        "https://learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations",
    ),
    _Name(
        "name-workspace",
        "operationalinsights:Workspace",
        "workspaceName",
        r"[A-Za-z0-9][A-Za-z0-9-]{2,61}[A-Za-z0-9]",
        "4 to 63 letters, digits and hyphens, a letter or digit first and last",
        "operationalinsights",
    ),
    *(
        _Name(
            rule,
            f"authorization:{type_}",
            "lockName",
            r"[\w.()-]{0,89}[\w()-]",
            "1 to 90 letters, digits, periods, underscores, hyphens and parentheses, "
            "no period last",
            "authorization",
        )
        for rule, type_ in (
            ("name-lock", "ManagementLockByScope"),
            ("name-lock-of-group", "ManagementLockAtResourceGroupLevel"),
        )
    ),
    _Name(
        "name-role-assignment",
        "authorization:RoleAssignment",
        "roleAssignmentName",
        _GUID,
        "a GUID; left out, one is made up",
        "authorization",
    ),
    *(
        _Name(
            f"name-budget-{module}",
            f"{module}:Budget",
            "budgetName",
            r"[A-Za-z0-9_-]{1,63}",
            "1 to 63 letters, digits, underscores and hyphens",
            "https://learn.microsoft.com/rest/api/consumption/budgets/create-or-update",
        )
        for module in ("consumption", "costmanagement")
    ),
)


def _rule(name: _Name) -> Rule:
    source = name.source
    if not source.startswith("https://"):
        source = _RULES.format(anchor=source)
    return Rule(name.rule, (name.type,), source, _broken(name))


def _broken(name: _Name) -> Callable[[Inputs], Iterator[Finding]]:
    def broken(inputs: Inputs) -> Iterator[Finding]:
        given = inputs.get(name.property)
        if isinstance(given, str) and not re.fullmatch(name.pattern, given):
            yield Finding(name.property, f"{given!r} is not allowed; it takes {name.words}")

    return broken


RULES = tuple(_rule(name) for name in _NAMES)
