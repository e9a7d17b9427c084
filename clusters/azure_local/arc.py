"""The cluster as Azure knows it: one connected through Arc, and the instance of AKS behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pulumi_azure_native import kubernetes, resources

from clusters.azure_local import bodies

if TYPE_CHECKING:
    import pulumi

    from clusters.azure_local.nodes import GpuNodes
    from clusters.azure_local.place import Place

_PARENT = "connectedClusters/{cluster}/providers/" + bodies.NAMESPACE
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


def connected_cluster(place: Place) -> kubernetes.ConnectedCluster:
    """Declare what the cluster is to Azure: who gets in, and where its instance belongs."""
    settings = place.settings
    who = settings.entra
    profile = None
    if who is not None:
        profile = kubernetes.AadProfileArgs(
            admin_group_object_ids=list(who.admin_groups),
            enable_azure_rbac=who.azure_rbac,
            tenant_id=who.tenant,
        )
    return kubernetes.ConnectedCluster(
        settings.name,
        cluster_name=settings.name,
        resource_group_name=place.group,
        location=settings.location,
        kind=kubernetes.ConnectedClusterKind.PROVISIONED_CLUSTER,
        identity=kubernetes.ConnectedClusterIdentityArgs(
            type=kubernetes.ResourceIdentityType.SYSTEM_ASSIGNED
        ),
        # AKS makes the key itself, and takes nothing but an empty one.
        agent_public_key_certificate="",
        aad_profile=profile,
        arc_agent_profile=kubernetes.ArcAgentProfileArgs(agent_auto_upgrade="Enabled"),
        tags=place.tags,
        # Azure RBAC is decided for good when the cluster is made:
        # https://learn.microsoft.com/azure/aks/aksarc/azure-rbac-local
        opts=place.opts(replace_on=["location", "aadProfile.enableAzureRBAC"]),
    )


def instance(
    place: Place, cluster: kubernetes.ConnectedCluster, network: pulumi.Input[str]
) -> resources.Resource:
    """Declare the instance of AKS: the machines of the API server and of the first pool.

    The SDK has no class for it, only for what it lists; so it is a generic resource.
    """
    return _generic(
        place,
        place.settings.name,
        cluster,
        path=("provisionedClusterInstances", "default"),
        properties=bodies.instance(place.settings, network),
        opts=place.opts([cluster], replace_on=_FIXED, most="2h"),
    )


def gpu_pool(
    place: Place,
    wanted: GpuNodes,
    cluster: kubernetes.ConnectedCluster,
    made: resources.Resource,
) -> resources.Resource:
    """Declare the pool of nodes with GPUs."""
    return _generic(
        place,
        f"{place.settings.name}-gpu",
        cluster,
        path=("provisionedClusterInstances", "default", "agentPools", "gpu"),
        properties=bodies.gpu_pool(wanted),
        # How many there are now is the autoscaler's business, where there is one.
        opts=place.opts(
            [made],
            ignore=["properties.count"] if wanted.grows else (),
            replace_on=_FIXED_OF_POOL,
            most="1h",
        ),
    )


def _generic(  # noqa: PLR0913  # a resource's place, its path, its body, and its options
    place: Place,
    name: str,
    cluster: kubernetes.ConnectedCluster,
    *,
    path: tuple[str, ...],
    properties: dict[str, Any],
    opts: pulumi.ResourceOptions,
) -> resources.Resource:
    """Declare what belongs to the connected cluster though it is another service's."""
    *above, kind, own = path
    parent = cluster.name.apply(lambda known: "/".join([_PARENT.format(cluster=known), *above]))
    return resources.Resource(
        name,
        api_version=bodies.API,
        resource_group_name=place.group,
        resource_provider_namespace="Microsoft.Kubernetes",
        parent_resource_path=parent,
        resource_type=kind,
        resource_name_=own,
        extended_location=resources.ExtendedLocationArgs(**bodies.location(place.settings)),
        properties=properties,
        opts=opts,
    )
