"""What Azure is asked for, in the words of its API, where the SDK has no types for it. Pure.

https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/create-or-update
https://learn.microsoft.com/rest/api/hybridcontainer/agent-pool/create-or-update
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.azure_local.nodes import GpuNodes
    from clusters.azure_local.settings import Settings

API = "2024-01-01"
"""The version of the API that these are of."""
NAMESPACE = "Microsoft.HybridContainerService"


def instance(settings: Settings, network: Any) -> dict[str, Any]:
    """Return the properties of the provisioned cluster instance.

    Args:
        settings: What the person asked for.
        network: The logical network's ID.
    """
    plane = settings.control_plane
    endpoint = {} if plane.address is None else {"controlPlaneEndpoint": {"hostIP": plane.address}}
    version = settings.kubernetes_version
    return {
        "controlPlane": {"count": plane.nodes, "vmSize": plane.size, **endpoint},
        **({} if version is None else {"kubernetesVersion": version}),
        "networkProfile": {"networkPolicy": "calico", "podCidr": settings.pods},
        # A cluster has one from the start. That of the GPUs is a resource of its own, so that
        # a change of it is none of the cluster.
        "agentPoolProfiles": [
            {
                "name": "system",
                "osType": "Linux",
                "osSKU": "CBLMariner",
                "vmSize": settings.system.size,
                "count": settings.system.nodes,
            }
        ],
        "cloudProviderProfile": {"infraNetworkProfile": {"vnetSubnetIds": [network]}},
        "linuxProfile": {"ssh": {"publicKeys": [{"keyData": settings.ssh_key}]}},
        **_ssh(settings),
        "licenseProfile": {"azureHybridBenefit": "NotApplicable"},
    }


def gpu_pool(pool: GpuNodes) -> dict[str, Any]:
    """Return the properties of the agent pool with GPUs."""
    bounds = {"minCount": pool.min_nodes, "maxCount": pool.max_nodes} if pool.grows else {}
    return {
        "osType": "Linux",
        "osSKU": "CBLMariner",
        "vmSize": pool.size,
        "count": pool.min_nodes,
        "enableAutoScaling": pool.grows,
        **bounds,
        "nodeLabels": pool.all_labels,
        "nodeTaints": [f"{each.key}={each.value}:{each.effect}" for each in pool.taints],
    }


def location(settings: Settings) -> Mapping[str, str]:
    """Return the extended location: the Azure Local instance, by what stands for it."""
    return {"type": "CustomLocation", "name": settings.custom_location}


def _ssh(settings: Settings) -> dict[str, Any]:
    if not settings.ssh_from:
        return {}
    return {"clusterVMAccessProfile": {"authorizedIPRanges": ",".join(settings.ssh_from)}}
