"""An AKS cluster with all that belongs to it, in the running Pulumi program."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes
from pulumi_azure_native import containerservice as aks

from clusters.access.resource import Access
from clusters.azure import (
    beforehand,
    kubeconfig,
    monitoring,
    names,
    network,
    pools,
    protection,
    roles,
    storage,
)
from clusters.azure.budget import budget
from clusters.azure.identity import for_pods, identities, trust
from clusters.azure.managed_cluster import managed_cluster
from clusters.azure.place import Place, prepare
from clusters.azure.registry import pull_rights, registry
from clusters.cluster import Cluster
from images.resource import helper_images

if TYPE_CHECKING:
    from clusters.azure.settings import Settings
    from clusters.pools import GpuPool


def provision(settings: Settings, gpus: GpuPool | None) -> Cluster:
    """Declare it all and return the cluster.

    Args:
        settings: What the person asked for.
        gpus: The same of GPUs, as jobs have to know it.
    """
    pushes = len(settings.images.there) < len(fields(settings.images))
    beforehand.check(settings, pushes=pushes)
    place = prepare(settings)
    subnet = network.subnet(place)
    who = identities(place, subnet)
    images = registry(place)
    files = storage.account(place, subnet)
    may_pull = pull_rights(place, images, who)

    cluster = managed_cluster(place, subnet, who, [*who.granted, may_pull])
    nodes = [*pools.more(place, cluster, subnet)]
    issuer = cluster.oidc_issuer_profile.apply(lambda profile: str(profile.issuer_url))
    rights = [
        trust(place, who.jobs, issuer),
        *storage.job_rights(place, files, who),
        *roles.administrators(
            place, cluster=cluster.id, registry=images.id, storage=files.account.id
        ),
    ]
    blobs = pulumi.Output.concat(files.account.id, "/blobServices/default")
    monitoring.logs(place, cluster=cluster.id, registry=images.id, blobs=blobs)
    if settings.budget:
        budget(place, settings.budget)
    if settings.production:
        protection.lock(place)

    target = _target(settings, images.id)
    helpers, helping = helper_images(target)
    text = _kubeconfig(place, cluster)
    access = Access(
        settings.name,
        kubeconfig=text,
        advice=_ADVICE,
        opts=pulumi.ResourceOptions(parent=place.parent, depends_on=[*nodes, *rights]),
    )
    provider = pulumi_kubernetes.Provider(
        settings.name,
        kubeconfig=text,
        # The kubeconfig may change, and this is still the same cluster.
        cluster_identifier=names.cluster_id(settings),
        opts=pulumi.ResourceOptions(depends_on=[access, *helping]),
    )
    return Cluster(
        kind="aks",
        provider=provider,
        kubeconfig=text,
        image_target=target,
        images=helpers,
        gpus=gpus,
        identity=for_pods(who.jobs),
    )


_ADVICE = (
    "run `az login`; see that your own ID is in admins, and the address that you come from in "
    "api.authorizedRanges (a private cluster is reached from inside of its network alone); then "
    "`pulumi up` again"
)


def _target(settings: Settings, registry: pulumi.Output[str]) -> dict[str, Any]:
    """Return how images get in: pushed to the stack's registry, but for those that are there."""
    pushed = {
        "kind": "registry",
        "server": names.registry_server(settings),
        "login": "azure",
        "after": registry,
    }
    there = settings.images.there
    return {"kind": "there", **there, "otherwise": pushed} if there else pushed


def _kubeconfig(place: Place, cluster: aks.ManagedCluster) -> pulumi.Output[str]:
    """Return what it takes to connect: one's own login, unless the administrator's is asked for."""
    settings = place.settings
    # By the cluster's ID, which is known once it is there: before, there is nobody to ask.
    which = {
        "resource_group_name": place.group_name,
        "resource_name": cluster.id.apply(lambda _: settings.name),
    }
    opts = pulumi.InvokeOptions(provider=place.provider)
    if settings.admin_kubeconfig:
        listed = aks.list_managed_cluster_admin_credentials_output(**which, opts=opts)
        return pulumi.Output.secret(listed.apply(_first))
    listed = aks.list_managed_cluster_user_credentials_output(format="exec", **which, opts=opts)
    login = settings.login
    return pulumi.Output.secret(
        listed.apply(lambda found: kubeconfig.logging_in(_first(found), login))
    )


def _first(listed: aks.ListManagedClusterUserCredentialsResult) -> str:
    return base64.b64decode(listed.kubeconfigs[0].value).decode()
