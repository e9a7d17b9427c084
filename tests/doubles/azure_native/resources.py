"""The resource types that the double serves: their IDs, and the outputs that the program uses."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

TENANT = "00000000-0000-0000-0000-0000000000ff"
_GROUP = "subscriptions/{subscription}/resourceGroups/{resourceGroupName}"
_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities/{resourceName}"
_CLUSTER = "Microsoft.ContainerService/managedClusters/{resourceName}"
_NETWORK = "Microsoft.Network/virtualNetworks/{virtualNetworkName}"
_STORAGE = "Microsoft.Storage/storageAccounts/{accountName}"
_IN_GROUP = {
    "azurestackhci:LogicalNetwork": "Microsoft.AzureStackHCI/logicalNetworks/{logicalNetworkName}",
    "containerregistry:Registry": "Microsoft.ContainerRegistry/registries/{registryName}",
    "containerservice:AgentPool": f"{_CLUSTER}/agentPools/{{agentPoolName}}",
    "containerservice:MaintenanceConfiguration": (
        f"{_CLUSTER}/maintenanceConfigurations/{{configName}}"
    ),
    "containerservice:ManagedCluster": _CLUSTER,
    "kubernetes:ConnectedCluster": "Microsoft.Kubernetes/connectedClusters/{clusterName}",
    "managedidentity:FederatedIdentityCredential": (
        f"{_IDENTITY}/federatedIdentityCredentials/{{federatedIdentityCredentialResourceName}}"
    ),
    "managedidentity:UserAssignedIdentity": _IDENTITY,
    "network:NetworkSecurityGroup": (
        "Microsoft.Network/networkSecurityGroups/{networkSecurityGroupName}"
    ),
    "network:Subnet": f"{_NETWORK}/subnets/{{subnetName}}",
    "network:VirtualNetwork": _NETWORK,
    "operationalinsights:Workspace": "Microsoft.OperationalInsights/workspaces/{workspaceName}",
    "resources:Resource": (
        "{resourceProviderNamespace}/{parentResourcePath}/{resourceType}/{resourceName}"
    ),
    "storage:BlobContainer": f"{_STORAGE}/blobServices/default/containers/{{containerName}}",
    "storage:BlobServiceProperties": f"{_STORAGE}/blobServices/{{blobServicesName}}",
    "storage:StorageAccount": _STORAGE,
}
_ANYWHERE = {
    "authorization:ManagementLockByScope": (
        "{scope}/providers/Microsoft.Authorization/locks/{lockName}"
    ),
    "authorization:RoleAssignment": (
        "{scope}/providers/Microsoft.Authorization/roleAssignments/{roleAssignmentName}"
    ),
    "consumption:Budget": "{scope}/providers/Microsoft.Consumption/budgets/{budgetName}",
    "monitor:DiagnosticSetting": (
        "{resourceUri}/providers/Microsoft.Insights/diagnosticSettings/{name}"
    ),
}
_PATHS: Mapping[str, str] = {
    "resources:ResourceGroup": _GROUP,
    **{token: f"{_GROUP}/providers/{path}" for token, path in _IN_GROUP.items()},
    **_ANYWHERE,
}
"""The ID of each type by its token: what is in braces is the subscription, or an input.

https://github.com/Azure/azure-rest-api-specs/tree/main/specification
"""
WITH_ADDRESS = (
    "containerregistry:Registry",
    "containerservice:ManagedCluster",
    "kubernetes:ConnectedCluster",
    "storage:StorageAccount",
)
"""Types with an address in DNS."""


class Unserved(LookupError):
    """A resource type or a function that the double does not serve."""

    def __init__(self, token: str) -> None:
        super().__init__(
            f"the tests' double of azure-native does not serve {token}; add what the test needs "
            "of it to tests/doubles/azure_native"
        )


def path_of(token: str, inputs: Mapping[str, Any], subscription: str) -> str:
    """Return a resource's ID in Azure."""
    path = _PATHS.get(token.removeprefix("azure-native:"))
    if path is None:
        raise Unserved(token)
    names = re.findall(r"\{(\w+)\}", path)
    parts = {name: str(inputs[name]).strip("/") for name in names if name != "subscription"}
    return f"/{path.format(subscription=subscription, **parts)}"


def outputs_of(token: str, resource_id: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with what Azure adds, the same each time, so that a refresh is quiet."""
    found = {**inputs, "name": resource_id.rpartition("/")[2]}
    if token.endswith(":UserAssignedIdentity"):
        found |= {**_identity(resource_id), "tenantId": TENANT}
    elif token.endswith(":ManagedCluster"):
        found |= _cluster(resource_id, inputs)
    return found


def _identity(resource_id: str) -> dict[str, str]:
    names = {"clientId": "client", "principalId": "principal"}
    return {key: _guid(resource_id, part) for key, part in names.items()}


def _cluster(resource_id: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the program reads: of its identities, a list going in comes back as a map."""
    issuer = f"https://{inputs['location']}.oic.prod-aks.azure.com/{TENANT}/double/"
    identity = inputs.get("identity") or {}
    assigned = {each: _identity(each) for each in identity.get("userAssignedIdentities") or ()}
    return {
        "oidcIssuerProfile": {**(inputs.get("oidcIssuerProfile") or {}), "issuerURL": issuer},
        "identity": {**identity, "userAssignedIdentities": assigned},
        "identityProfile": {"kubeletidentity": {"objectId": _guid(resource_id, "nodes")}},
    }


def _guid(resource_id: str, part: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{resource_id}#{part}"))
