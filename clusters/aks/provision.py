"""Declares an AKS cluster with all that belongs to it, in the running Pulumi program."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes
from pulumi_azure_native import containerservice as aks
from pulumi_azure_native import network

from clusters.access.resource import Access
from clusters.aks import account, identity, nodes, services
from clusters.aks.pools import gpus
from clusters.azure import checks
from clusters.azure.resources import AzureCluster, kubeconfig
from clusters.cluster import Cluster
from images.resource import helper_images

if TYPE_CHECKING:
    from clusters.aks.settings import Network, Settings
    from clusters.azure.settings import Login

_ADVICE = (
    "run `az login`; see that your own ID is in admins, and the address that you come from in "
    "api.authorizedRanges (a private cluster is reached from inside of its network alone); then "
    "`pulumi up` again"
)


def provision(settings: Settings) -> Cluster:
    """Declare everything on Azure, and return the cluster."""
    prebuilt = settings.images.prebuilt
    checks.before_update(
        settings,
        pushes=len(prebuilt) < len(fields(settings.images)),
        account=lambda: account.problems(settings),
    )
    azure = AzureCluster("slipway:clusters:Aks", settings)
    subnet = _subnet(azure, settings.network)
    who = identity.Identities(azure, subnet)
    registry = services.registry(azure, settings.registry_name, settings.registry.sku)
    storage = services.storage_account(
        azure,
        settings.storage_name,
        settings.storage,
        ranges=settings.api.authorized_ranges,
        subnet=subnet,
    )
    job_roles = services.containers(azure, settings.storage_name, storage, who.jobs.principal_id)
    cluster = nodes.managed_cluster(azure, settings, subnet, who)
    nodes.maintenance(azure, cluster)
    ready = [
        *nodes.agent_pools(azure, cluster, subnet, settings.cpu, settings.gpu or None),
        identity.grant(
            azure, "kubelet-pull", identity.Role.ACR_PULL, registry.id, identity.of_nodes(cluster)
        ),
        identity.trust_jobs(azure, who.jobs, cluster.oidc_issuer_profile.issuer_url),
        *job_roles,
        *identity.administrators(
            azure, settings.admins, cluster=cluster.id, registry=registry.id, storage=storage.id
        ),
    ]
    blobs = pulumi.Output.concat(storage.id, "/blobServices/default")
    services.diagnostic_logs(
        azure, settings.logs, cluster=cluster.id, registry=registry.id, blobs=blobs
    )
    if settings.budget:
        services.budget(azure, settings.budget, settings.group, settings.node_group)
    if settings.production:
        azure.lock(azure.group[0].id)

    target = settings.images.target(
        {
            "kind": "registry",
            "server": f"{settings.registry_name.lower()}.azurecr.io",
            "login": "azure",
            "after": registry.id,
        }
    )
    helpers, helping = helper_images(target)
    text = _kubeconfig(azure, cluster, None if settings.admin_kubeconfig else settings.login)
    access = Access(
        settings.name,
        kubeconfig=text,
        advice=_ADVICE,
        lasting=_lasting(settings),
        opts=pulumi.ResourceOptions(parent=azure, depends_on=ready),
    )
    cluster_type = "Microsoft.ContainerService/managedClusters"
    provider = pulumi_kubernetes.Provider(
        settings.name,
        kubeconfig=text,
        # The kubeconfig may change, and this is still the same cluster.
        cluster_identifier=f"{settings.group_id}/providers/{cluster_type}/{settings.resource_name}",
        opts=pulumi.ResourceOptions(depends_on=[access, *helping]),
    )
    return Cluster(
        kind="aks",
        provider=provider,
        kubeconfig=text,
        image_target=target,
        images=helpers,
        gpus=gpus(settings),
        identity=identity.of_pods(who.jobs),
    )


def _lasting(settings: Settings) -> dict[str, Any]:
    """Return what of the settings is not changed, or only in another cluster.

    https://github.com/pulumi/pulumi-azure-native/blob/master/provider/pkg/gen/replacement.go
    """
    system, network = settings.system, settings.network
    pods = "no pods of jobs" if settings.cpu is not None else "pods of jobs"
    return {
        "fixed": {
            "name": settings.resource_name,
            "resourceGroup": settings.group,
            "location": settings.location,
            "network.pods": network.pods,
            "network.services": network.services,
        },
        "left": {
            "system": f"{system.min_nodes} to {system.max_nodes} of {system.size} with {pods}"
        },
        "byHand": "Its number of nodes: `az aks nodepool update --name system --resource-group "
        f"{settings.group} --cluster-name {settings.resource_name} --update-cluster-autoscaler "
        f"--min-count {system.min_nodes} --max-count {system.max_nodes}`",
    }


def _subnet(azure: AzureCluster, settings: Network) -> pulumi.Input[str]:
    """Return the ID of the existing subnet for nodes; or declare a network and return its own.

    The nodes' security group has no rule of its own: Azure's defaults let nothing in from
    outside of the network but the load balancer's probes
    (https://learn.microsoft.com/azure/virtual-network/network-security-groups-overview).
    """
    if settings.subnet is not None:
        return settings.subnet
    name = azure.cluster_name
    guard = network.NetworkSecurityGroup(
        f"{name}-nodes",
        network_security_group_name=f"{name}-nodes",
        **azure.placed,
        opts=azure.opts(),
    )
    around = network.VirtualNetwork(
        name,
        virtual_network_name=f"slipway-{name}",
        **azure.placed,
        address_space=network.AddressSpaceArgs(address_prefixes=[settings.addresses]),
        # Its subnet is a resource of its own.
        opts=azure.opts(ignore=["subnets"]),
    )
    subnet = network.Subnet(
        f"{name}-nodes",
        subnet_name="nodes",
        virtual_network_name=f"slipway-{name}",
        resource_group_name=azure.group_name,
        address_prefix=settings.nodes,
        network_security_group=network.NetworkSecurityGroupArgs(id=guard.id),
        # By which the storage account sees that a request comes from here.
        service_endpoints=[
            network.ServiceEndpointPropertiesFormatArgs(service="Microsoft.Storage")
        ],
        opts=azure.opts(around),
    )
    made: pulumi.Output[str] = subnet.id
    return made


def _kubeconfig(
    azure: AzureCluster, cluster: aks.ManagedCluster, login: Login | None
) -> pulumi.Output[str]:
    """Return what it takes to connect: your own login, or the administrator's without a `login`."""
    which = {
        "resource_group_name": azure.group_name,
        # By the cluster's ID, which is known once it exists: before, Azure has nothing to list.
        "resource_name": cluster.id.apply(lambda _: azure.resource_name),
    }
    opts = pulumi.InvokeOptions(provider=azure.provider)
    if login is None:
        listed = aks.list_managed_cluster_admin_credentials_output(**which, opts=opts)
    else:
        listed = aks.list_managed_cluster_user_credentials_output(format="exec", **which, opts=opts)
    text = listed.apply(lambda found: base64.b64decode(found.kubeconfigs[0].value).decode())
    return kubeconfig(text, login)
