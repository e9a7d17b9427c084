"""The cluster as Azure Arc has it: connected, the instance of AKS behind it, and a pool of GPUs.

https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/create-or-update
https://learn.microsoft.com/rest/api/hybridcontainer/agent-pool/create-or-update
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_azure_native import kubernetes, resources

if TYPE_CHECKING:
    from clusters.azure.resources import AzureCluster
    from clusters.azure_local.settings import Entra, LocalGpuNodes, Settings

_API = "2024-01-01"
"""The version of the API that the properties below are of."""
_FIXED = (
    "extendedLocation",
    "properties.networkProfile",
    "properties.cloudProviderProfile",
    "properties.linuxProfile",
    "properties.controlPlane.vmSize",
    "properties.controlPlane.controlPlaneEndpoint",
    "properties.agentPoolProfiles[0].vmSize",
)
"""What can't be changed of a cluster.

https://learn.microsoft.com/cli/azure/aksarc#az-aksarc-update has all that can.
"""
_FIXED_OF_POOL = ("extendedLocation", "properties.vmSize", "properties.osType", "properties.osSKU")
"""What can't be changed of a pool.

https://learn.microsoft.com/cli/azure/aksarc/nodepool#az-aksarc-nodepool-update has all that can.
"""
_LINUX = {"osType": "Linux", "osSKU": "CBLMariner"}


def connected_cluster(azure: AzureCluster, entra: Entra | None) -> kubernetes.ConnectedCluster:
    """Declare what the cluster is to Azure: who gets in, and where its instance belongs."""
    profile = None
    if entra is not None:
        profile = kubernetes.AadProfileArgs(
            admin_group_object_ids=list(entra.admin_groups),
            enable_azure_rbac=entra.azure_rbac,
            tenant_id=entra.tenant,
        )
    return kubernetes.ConnectedCluster(
        azure.cluster_name,
        cluster_name=azure.cluster_name,
        **azure.placed,
        kind=kubernetes.ConnectedClusterKind.PROVISIONED_CLUSTER,
        identity=kubernetes.ConnectedClusterIdentityArgs(
            type=kubernetes.ResourceIdentityType.SYSTEM_ASSIGNED
        ),
        # AKS makes the key itself, and takes nothing but an empty one.
        agent_public_key_certificate="",
        aad_profile=profile,
        arc_agent_profile=kubernetes.ArcAgentProfileArgs(agent_auto_upgrade="Enabled"),
        # Azure RBAC is decided for good when the cluster is made:
        # https://learn.microsoft.com/azure/aks/aksarc/azure-rbac-local
        opts=azure.opts(replace_on=["location", "aadProfile.enableAzureRBAC"]),
    )


def instance(
    azure: AzureCluster,
    settings: Settings,
    cluster: kubernetes.ConnectedCluster,
    network: pulumi.Input[str],
) -> pulumi.Resource:
    """Declare the instance of AKS: the machines of the API server and of the first pool.

    Args:
        azure: The cluster's parent.
        settings: Of the cluster.
        cluster: The connected cluster.
        network: The logical network's ID.
    """
    plane = settings.control_plane
    endpoint = {} if plane.address is None else {"controlPlaneEndpoint": {"hostIP": plane.address}}
    properties: dict[str, Any] = {
        "controlPlane": {"count": plane.nodes, "vmSize": plane.size, **endpoint},
        "networkProfile": {"networkPolicy": "calico", "podCidr": settings.pods},
        # A cluster has one from the start. That of the GPUs is a resource of its own, so that
        # a change of it is none of the cluster.
        "agentPoolProfiles": [
            {
                "name": "system",
                **_LINUX,
                "vmSize": settings.system.size,
                "count": settings.system.nodes,
            }
        ],
        "cloudProviderProfile": {"infraNetworkProfile": {"vnetSubnetIds": [network]}},
        "linuxProfile": {"ssh": {"publicKeys": [{"keyData": settings.ssh_key}]}},
        "licenseProfile": {"azureHybridBenefit": "NotApplicable"},
    }
    if settings.kubernetes_version is not None:
        properties["kubernetesVersion"] = settings.kubernetes_version
    if settings.ssh_from:
        ranges = ",".join(settings.ssh_from)
        properties["clusterVMAccessProfile"] = {"authorizedIPRanges": ranges}
    return _generic(
        azure.cluster_name,
        cluster,
        ("provisionedClusterInstances", "default"),
        location=settings.custom_location,
        group=azure.group_name,
        properties=properties,
        opts=azure.opts(cluster, replace_on=_FIXED, timeout="2h"),
    )


def gpu_pool(
    azure: AzureCluster,
    gpu: LocalGpuNodes,
    cluster: kubernetes.ConnectedCluster,
    location: str,
    made: pulumi.Resource,
) -> pulumi.Resource:
    """Declare the pool of nodes with GPUs.

    Args:
        azure: The cluster's parent.
        gpu: Its settings.
        cluster: The connected cluster.
        location: The ID of the custom location.
        made: The instance of AKS.
    """
    grows = gpu.min_nodes < gpu.max_nodes
    bounds = {"minCount": gpu.min_nodes, "maxCount": gpu.max_nodes} if grows else {}
    return _generic(
        f"{azure.cluster_name}-gpu",
        cluster,
        ("provisionedClusterInstances", "default", "agentPools", "gpu"),
        location=location,
        group=azure.group_name,
        properties={
            **_LINUX,
            "vmSize": gpu.size,
            "count": gpu.min_nodes,
            "enableAutoScaling": grows,
            **bounds,
            "nodeLabels": gpu.all_labels,
            "nodeTaints": [*map(str, gpu.all_taints)],
        },
        # How many there are now is the autoscaler's business, where there is one.
        opts=azure.opts(
            made,
            ignore=["properties.count"] if grows else (),
            replace_on=_FIXED_OF_POOL,
            timeout="1h",
        ),
    )


def _generic(  # noqa: PLR0913  # a resource's name, its path, its body, and its options
    name: str,
    cluster: kubernetes.ConnectedCluster,
    path: tuple[str, ...],
    *,
    location: str,
    group: pulumi.Input[str],
    properties: dict[str, Any],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    """Declare what belongs to the connected cluster though another service has it.

    The SDK has no class for it, only for what Azure lists; so it is a generic resource.
    """
    *above, kind, own = path
    parent = cluster.name.apply(
        lambda known: "/".join(
            [f"connectedClusters/{known}/providers/Microsoft.HybridContainerService", *above]
        )
    )
    made: pulumi.Resource = resources.Resource(
        name,
        api_version=_API,
        resource_group_name=group,
        resource_provider_namespace="Microsoft.Kubernetes",
        parent_resource_path=parent,
        resource_type=kind,
        resource_name_=own,
        extended_location=resources.ExtendedLocationArgs(type="CustomLocation", name=location),
        properties=properties,
        opts=opts,
    )
    return made
