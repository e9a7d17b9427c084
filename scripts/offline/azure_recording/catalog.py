"""The resource types that the double serves: where each is in Azure, and what of it stays.

A new one is one line. Paths are those of the services' REST interfaces, below
https://github.com/Azure/azure-rest-api-specs/tree/main/specification.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PARAMETER = re.compile(r"\{(\w+)\}")
_GROUP = "/subscriptions/{subscriptionId}/resourceGroups/{resourceGroupName}"
_IN_GROUP = f"{_GROUP}/providers/"
_CLUSTER = f"{_IN_GROUP}Microsoft.ContainerService/managedClusters/{{resourceName}}"
_IDENTITY = f"{_IN_GROUP}Microsoft.ManagedIdentity/userAssignedIdentities/{{resourceName}}"
_STORAGE = f"{_IN_GROUP}Microsoft.Storage/storageAccounts/{{accountName}}"
_NETWORK = f"{_IN_GROUP}Microsoft.Network/"


class Unserved(LookupError):
    """A resource type of the SDK that the double knows nothing of."""

    def __init__(self, token: str) -> None:
        super().__init__(
            f"the recording double of azure-native's plugin does not serve {token}; it serves "
            f"{', '.join(sorted(TYPES))}. A new one is a line in "
            "scripts/offline/azure_recording/catalog.py, or install the real plugin"
        )


@dataclass(frozen=True)
class ResourceType:
    """A type of resource.

    Args:
        token: As the SDK calls it, less `azure-native:`.
        path: Of its ID; what stands in braces are inputs.
        replaced: Properties for whose sake azure-native makes the resource anew, besides those in
            its path and its location.
        refused: Properties that azure-native would try to change, and the service refuses to;
            `[*]` is any item.
    """

    token: str
    path: str
    replaced: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def parameters(self) -> Sequence[str]:
        """The inputs in its path, its own name last."""
        return [name for name in _PARAMETER.findall(self.path) if name != "subscriptionId"]

    @property
    def name_property(self) -> str | None:
        """The input that is its name; None for one with a fixed name."""
        return self.parameters[-1] if self.path.endswith("}") else None


_NO_CHANGE_OF_POOL = (
    "osType",
    "osDiskType",
    "osDiskSizeGB",
    "maxPods",
    "availabilityZones",
    "vnetSubnetID",
    "scaleSetPriority",
    "scaleSetEvictionPolicy",
    "spotMaxPrice",
    "type",
)
# https://learn.microsoft.com/azure/aks/manage-node-pools and .../spot-node-pool#limitations say
# what can't be changed. What is replaced is azure-native's own list, for which see
# https://github.com/pulumi/pulumi-azure-native/blob/master/provider/pkg/gen/replacement.go.
_TYPES = (
    ResourceType("resources:ResourceGroup", _GROUP),
    ResourceType(
        "resources:Resource",
        f"{_IN_GROUP}{{resourceProviderNamespace}}/{{parentResourcePath}}"
        "/{resourceType}/{resourceName}",
        replaced=("extendedLocation",),
    ),
    ResourceType("network:VirtualNetwork", f"{_NETWORK}virtualNetworks/{{virtualNetworkName}}"),
    ResourceType(
        "network:Subnet",
        f"{_NETWORK}virtualNetworks/{{virtualNetworkName}}/subnets/{{subnetName}}",
    ),
    ResourceType(
        "network:NetworkSecurityGroup",
        f"{_NETWORK}networkSecurityGroups/{{networkSecurityGroupName}}",
    ),
    ResourceType("network:NatGateway", f"{_NETWORK}natGateways/{{natGatewayName}}"),
    ResourceType(
        "network:PublicIPAddress",
        f"{_NETWORK}publicIPAddresses/{{publicIpAddressName}}",
        replaced=("publicIPAddressVersion", "publicIPPrefix", "sku"),
    ),
    ResourceType(
        "containerservice:ManagedCluster",
        _CLUSTER,
        replaced=(
            "diskEncryptionSetID",
            "dnsPrefix",
            "fqdnSubdomain",
            "linuxProfile",
            "nodeResourceGroup",
            "windowsProfile",
            *(
                f"networkProfile.{key}"
                for key in (
                    "serviceCidr",
                    "serviceCidrs",
                    "dnsServiceIP",
                    "networkMode",
                    "networkPlugin",
                    "networkPluginMode",
                    "podCidr",
                    "networkDataplane",
                    "networkPolicy",
                    "outboundType",
                )
            ),
        ),
        refused=tuple(
            f"agentPoolProfiles[*].{key}" for key in ("vmSize", "name", *_NO_CHANGE_OF_POOL)
        ),
    ),
    ResourceType(
        "containerservice:AgentPool",
        f"{_CLUSTER}/agentPools/{{agentPoolName}}",
        replaced=("gpuInstanceProfile", "vmSize"),
        refused=(*_NO_CHANGE_OF_POOL, "gpuProfile"),
    ),
    ResourceType(
        "containerservice:MaintenanceConfiguration",
        f"{_CLUSTER}/maintenanceConfigurations/{{configName}}",
    ),
    ResourceType(
        "containerregistry:Registry",
        f"{_IN_GROUP}Microsoft.ContainerRegistry/registries/{{registryName}}",
    ),
    ResourceType(
        "authorization:RoleAssignment",
        "/{scope}/providers/Microsoft.Authorization/roleAssignments/{roleAssignmentName}",
        replaced=("principalId",),
        refused=("roleDefinitionId",),
    ),
    ResourceType(
        "authorization:ManagementLockByScope",
        "/{scope}/providers/Microsoft.Authorization/locks/{lockName}",
    ),
    ResourceType(
        "authorization:ManagementLockAtResourceGroupLevel",
        f"{_IN_GROUP}Microsoft.Authorization/locks/{{lockName}}",
    ),
    ResourceType("managedidentity:UserAssignedIdentity", _IDENTITY),
    ResourceType(
        "managedidentity:FederatedIdentityCredential",
        f"{_IDENTITY}/federatedIdentityCredentials/{{federatedIdentityCredentialResourceName}}",
    ),
    ResourceType("storage:StorageAccount", _STORAGE, replaced=("isHnsEnabled",)),
    ResourceType(
        "storage:BlobContainer", f"{_STORAGE}/blobServices/default/containers/{{containerName}}"
    ),
    ResourceType("storage:BlobServiceProperties", f"{_STORAGE}/blobServices/{{blobServicesName}}"),
    ResourceType(
        "storage:ManagementPolicy", f"{_STORAGE}/managementPolicies/{{managementPolicyName}}"
    ),
    ResourceType(
        "operationalinsights:Workspace",
        f"{_IN_GROUP}Microsoft.OperationalInsights/workspaces/{{workspaceName}}",
    ),
    ResourceType(
        "monitor:DiagnosticSetting",
        "/{resourceUri}/providers/Microsoft.Insights/diagnosticSettings/{name}",
    ),
    ResourceType(
        "monitor:ActionGroup", f"{_IN_GROUP}Microsoft.Insights/actionGroups/{{actionGroupName}}"
    ),
    ResourceType(
        "consumption:Budget", "/{scope}/providers/Microsoft.Consumption/budgets/{budgetName}"
    ),
    ResourceType(
        "costmanagement:Budget", "/{scope}/providers/Microsoft.CostManagement/budgets/{budgetName}"
    ),
    ResourceType(
        "kubernetes:ConnectedCluster",
        f"{_IN_GROUP}Microsoft.Kubernetes/connectedClusters/{{clusterName}}",
        replaced=("agentPublicKeyCertificate", "kind"),
    ),
    ResourceType(
        "azurestackhci:LogicalNetwork",
        f"{_IN_GROUP}Microsoft.AzureStackHCI/logicalNetworks/{{logicalNetworkName}}",
    ),
)

TYPES: Mapping[str, ResourceType] = {each.token: each for each in _TYPES}
"""By token, less `azure-native:`."""


def served(token: str) -> ResourceType:
    """Return the type that the SDK calls `token`.

    Raises:
        Unserved: the double knows nothing of it.
    """
    found = TYPES.get(token.partition(":")[2])
    if found is None:
        raise Unserved(token)
    return found
