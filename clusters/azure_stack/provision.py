"""Declare a cluster on Azure Local.

https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/create-or-update
https://learn.microsoft.com/rest/api/hybridcontainer/agent-pool/create-or-update
"""

from pathlib import Path
from typing import Any

import pulumi
from pulumi_azure_native import authorization, azurestackhci, kubernetes, resources

from clusters.azure import checks
from clusters.azure.resources import AzureCluster, connected, within
from clusters.azure_stack.machines import LogicalNetwork
from clusters.azure_stack.settings import AzureStackSettings, Entra, gpus
from clusters.cluster import ONE_AT_A_TIME, Cluster
from core import tokens
from core.manifests import read

_CONSTANTS = read(Path(__file__).with_name("constants.yaml"))
_FIXED = _CONSTANTS["fixed"]
"""Properties that, if changed, cause a resource to be replaced."""


def provision(settings: AzureStackSettings) -> Cluster:
    """Declare all resources for a cluster on Azure Local, and return the cluster."""
    checks.before_update(settings, "azure-stack")
    azure = AzureCluster(tokens.AZURE_LOCAL, settings, "30m")
    network = _network(azure, settings.logical_network, settings.custom_location)
    arc = _connected_cluster(azure, settings.entra)
    created = _instance(azure, settings, arc, network)
    if settings.production:
        azure.lock(arc.id)

    return connected(
        azure,
        _kubeconfig(azure, settings, created[0]),
        settings.images.target(settings.registry.target()),
        identifier=settings.name,
        advice=_CONSTANTS["advice"],
        after=created,
        kind="azure-stack",
        resource=created[0],
        gpus=gpus(settings),
        mirrors=settings.registry.mirrors,
        pull_secret=settings.registry.pull_secret(),
        no_volume=f"the cluster may have several nodes, and {ONE_AT_A_TIME}",
    )


def _network(
    azure: AzureCluster, settings: LogicalNetwork | str, location: str
) -> pulumi.Input[str]:
    """Return the ID of the machines' network, which is declared unless `settings` is an ID."""
    if isinstance(settings, str):
        return settings
    out = {"address_prefix": "0.0.0.0/0", "next_hop_ip_address": settings.gateway}
    addresses = {"start": settings.pool_start, "end": settings.pool_end}
    subnet = {
        **_CONSTANTS["subnet"],
        "address_prefix": settings.prefix,
        "ip_pools": [{"name": "nodes", "ip_pool_type": "vm", **addresses}],
        "route_table": {"routes": [{"name": "default", **out}]},
        "vlan": settings.vlan,
    }
    network: pulumi.CustomResource = azurestackhci.LogicalNetwork(
        azure.settings.name,
        logical_network_name=f"{azure.settings.name}-nodes",
        extended_location={"type": "CustomLocation", "name": location},
        vm_switch_name=settings.vm_switch,
        dhcp_options={"dns_servers": list(settings.dns_servers)},
        subnets=[subnet],
        **azure.placed(fixed=_FIXED["network"]),
    )
    return network.id


def _connected_cluster(azure: AzureCluster, entra: Entra | None) -> kubernetes.ConnectedCluster:
    """Declare the cluster's Azure Arc resource, with access through Entra."""
    profile = None
    if entra is not None:
        profile = {
            "admin_group_object_ids": list(entra.admin_groups),
            "enable_azure_rbac": entra.azure_rbac,
            **({} if entra.tenant is None else {"tenant_id": entra.tenant}),
        }
    return kubernetes.ConnectedCluster(
        azure.settings.name,
        cluster_name=azure.settings.resource_name,
        **_CONSTANTS["connected"],
        aad_profile=profile,
        **azure.placed(fixed=_FIXED["connected"]),
    )


def _instance(
    azure: AzureCluster,
    settings: AzureStackSettings,
    cluster: kubernetes.ConnectedCluster,
    network: pulumi.Input[str],
) -> list[pulumi.CustomResource]:
    """Declare the AKS instance and the GPU pool as generic resources; the SDK has no classes."""
    own = cluster.name.apply(
        lambda name: f"connectedClusters/{name}/providers/Microsoft.HybridContainerService"
    )
    common = {
        **_CONSTANTS["resource"],
        "extended_location": {"type": "CustomLocation", "name": settings.custom_location},
    }
    plane, system = settings.control_plane, settings.system
    optional: dict[str, Any] = {}
    endpoint = {} if plane.address is None else {"controlPlaneEndpoint": {"hostIP": plane.address}}
    if settings.kubernetes_version is not None:
        optional["kubernetesVersion"] = settings.kubernetes_version
    if settings.ssh_from:
        optional["clusterVMAccessProfile"] = {"authorizedIPRanges": ",".join(settings.ssh_from)}
    properties = {
        "controlPlane": {"count": plane.nodes, "vmSize": plane.size, **endpoint},
        "networkProfile": {"networkPolicy": "calico", "podCidr": settings.pods},
        # A cluster requires one pool. The GPU pool is a separate resource, so that changing it does
        # not change the cluster.
        "agentPoolProfiles": [
            {"name": "system", **_CONSTANTS["pool"], "vmSize": system.size, "count": system.nodes}
        ],
        "cloudProviderProfile": {"infraNetworkProfile": {"vnetSubnetIds": [network]}},
        "linuxProfile": {"ssh": {"publicKeys": [{"keyData": settings.ssh_key}]}},
        **_CONSTANTS["instance"],
        **optional,
    }
    kind = "provisionedClusterInstances"
    instance = resources.Resource(
        azure.settings.name,
        **common,
        parent_resource_path=own,
        resource_type=kind,
        resource_name_="default",
        properties=properties,
        **azure.grouped(cluster, fixed=_FIXED["instance"], timeout="2h"),
    )
    if (gpu := settings.gpu) is None:
        return [instance]
    bounds = {"minCount": gpu.min_nodes, "maxCount": gpu.max_nodes} if gpu.grows else {}
    # An autoscaler changes the number of nodes.
    ignored = ["properties.count"] if gpu.grows else []
    pool = resources.Resource(
        f"{azure.settings.name}-gpu",
        **common,
        parent_resource_path=pulumi.Output.concat(own, within(f"/{kind}/default", instance)),
        resource_type="agentPools",
        resource_name_="gpu",
        properties={
            **_CONSTANTS["pool"],
            "vmSize": gpu.size,
            "count": gpu.min_nodes,
            "enableAutoScaling": gpu.grows,
            **bounds,
            "nodeLabels": gpu.all_labels,
            "nodeTaints": [*map(str, gpu.all_taints)],
        },
        **azure.grouped(instance, fixed=_FIXED["pool"], timeout="1h", ignore_changes=ignored),
    )
    return [instance, pool]


class _Kubeconfig(pulumi.CustomResource):
    kubeconfig: pulumi.Output[str]


def _kubeconfig(
    azure: AzureCluster, settings: AzureStackSettings, instance: pulumi.CustomResource
) -> pulumi.Output[str]:
    """Return the kubeconfig from kubeconfig.py; it works only inside the cluster's network."""
    who = "Admin" if settings.admin_kubeconfig else "User"
    token = None
    if not pulumi.runtime.is_dry_run():  # a preview must not need a login
        # azure-native's own token expires after an hour, but creating the instance may take longer.
        after = pulumi.InvokeOutputOptions(provider=azure.provider, depends_on=[instance])
        token = pulumi.Output.secret(authorization.get_client_token_output(opts=after).token)
    inputs = {
        "instance": instance.id,
        "operation": f"list{who}Kubeconfig",
        "metadataHost": settings.metadata_host,
        "token": token,
        "advice": "make sure that this account has the role `Azure Kubernetes Service Arc Cluster "
        f"{who} Role` on the resource group {settings.group}, then run `make up` again",
        "kubeconfig": None,
    }
    kind, opts = tokens.AZURE_LOCAL_KUBECONFIG, pulumi.ResourceOptions(parent=azure)
    return _Kubeconfig(kind, settings.name, inputs, opts).kubeconfig
