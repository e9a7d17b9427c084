"""A cluster on Azure Local with all that belongs to it, in the running Pulumi program."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes
from pulumi_azure_native import hybridcontainerservice as hybrid

from clusters.azure import beforehand, kubeconfig
from clusters.azure_local import arc, names, protection
from clusters.azure_local.network import network
from clusters.azure_local.place import Place, prepare
from clusters.cluster import Cluster
from images.resource import helper_images

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.azure_local.settings import Settings
    from clusters.pools import GpuPool


def provision(settings: Settings, gpus: GpuPool | None) -> Cluster:
    """Declare it all and return the cluster."""
    beforehand.check(settings)
    place = prepare(settings)
    connected = arc.connected_cluster(place)
    made = [arc.instance(place, connected, network(place))]
    if settings.gpu is not None:
        made.append(arc.gpu_pool(place, settings.gpu, connected, made[0]))
    if settings.production:
        protection.lock(place, connected)
    target = _target(settings)
    helpers, images = helper_images(target)
    text = _kubeconfig(place, connected.id, made[0])
    return Cluster(
        kind="azure-stack",
        provider=pulumi_kubernetes.Provider(
            settings.name,
            kubeconfig=text,
            # The kubeconfig may change, and this is still the same cluster.
            cluster_identifier=names.identifier(settings),
            opts=pulumi.ResourceOptions(depends_on=[*made, *images]),
        ),
        kubeconfig=text,
        image_target=target,
        images=helpers,
        gpus=gpus,
        mirrors=settings.registry.mirrors,
        pull_secret=settings.registry.pull_secret(),
    )


def _target(settings: Settings) -> Mapping[str, Any]:
    """Return how images get in: pushed to the registry, but for those that are there."""
    pushed, there = settings.registry.target(), settings.images.there
    return {"kind": "there", **there, "otherwise": pushed} if there else pushed


def _kubeconfig(
    place: Place, cluster: pulumi.Output[str], instance: pulumi.Resource
) -> pulumi.Output[str]:
    """Return what it takes to connect: the person's own login, unless the administrator's is asked.

    Azure lists both for whoever reaches the cluster's own network, and there alone they work.
    """
    settings = place.settings
    # There is nothing to list before there is an instance.
    opts = pulumi.InvokeOutputOptions(provider=place.provider, depends_on=[instance])
    if settings.admin_kubeconfig:
        admins = hybrid.list_provisioned_cluster_instance_admin_kubeconfig_output(
            connected_cluster_resource_uri=cluster, opts=opts
        )
        return pulumi.Output.secret(admins.apply(_first))
    users = hybrid.list_provisioned_cluster_instance_user_kubeconfig_output(
        connected_cluster_resource_uri=cluster, opts=opts
    )
    login = settings.login
    return pulumi.Output.secret(
        users.apply(lambda found: kubeconfig.logging_in(_first(found), login))
    )


def _first(listed: Any) -> str:
    return base64.b64decode(listed.properties.kubeconfigs[0].value).decode()
