"""Declare an AKS cluster with its services, and role assignments instead of passwords."""

import base64
import uuid
from dataclasses import fields
from functools import partial
from itertools import product

import pulumi
from pulumi_azure_native import authorization, managedidentity
from pulumi_azure_native import containerservice as aks

from clusters.aks import account, nodes, services
from clusters.aks.access import Principal
from clusters.aks.settings import CONSTANTS, AksSettings, gpu_pools, gpus
from clusters.azure import checks
from clusters.azure.resources import AzureCluster, connected, within
from clusters.cloud_reports import AZURE_LATE_ROLES
from clusters.cluster import JOB_ACCOUNT, JOBS, Cluster, JobIdentity
from core import tokens


def provision(settings: AksSettings) -> Cluster:
    """Declare all Azure resources for a cluster, and return the cluster."""
    checks.before_update(
        settings,
        "azure",
        pushes=len(settings.images.prebuilt) < len(fields(settings.images)),
        account=partial(account.problems, settings),
    )
    admins = account.administrators(settings)

    azure = AzureCluster(tokens.AKS, settings)
    subnet = nodes.subnet_of(azure, settings.network)
    # AKS itself creates the nodes' identity. If it were created here, AKS would refuse the cluster
    # until the identity's role assignments had taken effect everywhere.
    control, jobs = (
        managedidentity.UserAssignedIdentity(name, resource_name_=name, **azure.placed())
        for name in (f"{settings.name}-control", f"{settings.name}-jobs")
    )
    may_join = _grant(azure, "control-network", "Network Contributor", subnet, control.principal_id)
    cluster = nodes.managed_cluster(azure, settings, subnet, control.id, after=may_join)
    ready = [*nodes.agent_pools(azure, settings, cluster, subnet)]

    registry = services.registry(azure, settings)
    storage, containers = services.storage_account(azure, settings, subnet, CONSTANTS["jobs"])
    blobs = pulumi.Output.concat(storage.id, "/blobServices/default")
    services.diagnostic_logs(
        azure, settings.logs, cluster=cluster.id, registry=registry.id, blobs=blobs
    )
    if settings.budget:
        services.budget(azure, settings.budget, settings.own_groups)

    scopes = {"cluster": cluster.id, "registry": registry.id, "storage": storage.id}
    kubelet = cluster.identity_profile.apply(lambda profile: profile["kubeletidentity"].object_id)
    ready += [
        _grant(azure, "kubelet-pull", "AcrPull", registry.id, kubelet),
        # Only the jobs' pods have that identity, through the issuer's tokens.
        managedidentity.FederatedIdentityCredential(
            f"{settings.name}-jobs",
            **CONSTANTS["trust"],
            resource_name_=within(f"{settings.name}-jobs", jobs),
            issuer=cluster.oidc_issuer_profile.issuer_url,
            subject=f"system:serviceaccount:{JOBS}:{JOB_ACCOUNT}",
            **azure.grouped(jobs),
        ),
        *(
            _grant(azure, f"jobs-{name}", CONSTANTS["jobs"][name], container.id, jobs.principal_id)
            for name, container in containers.items()
        ),
        *(
            _grant(azure, f"{where}-{principal}", role, scopes[where], principal, kind=kind)
            for kind, principals in admins.items()
            for principal, (where, role) in product(principals, CONSTANTS["admins"].items())
        ),
    ]
    if settings.production:
        azure.lock(azure.group[0].id)

    target = {
        "kind": "registry",
        "server": f"{settings.registry_name.lower()}.azurecr.io",
        "login": "azure",
        "credentials": settings.subscription,
        "after": registry.id,
    }
    return connected(
        azure,
        _kubeconfig(azure, cluster, admin=settings.admin_kubeconfig),
        settings.images.target(target),
        identifier=f"{CONSTANTS['type']}/{azure.settings.resource_name}",
        advice=CONSTANTS["advice"],
        after=ready,
        kind="aks",
        resource=cluster,
        gpus=gpus(settings),
        objects=nodes.priorities(gpu_pools(settings)),
        store=f"abfs://artifacts@{settings.storage_name}.dfs.core.windows.net/slipway",
        # AKS gives pods with this label a token for their service account's identity. adlfs, which
        # copies a job's `outputs`, authenticates with it, without a key
        # (https://github.com/fsspec/adlfs#setting-credentials).
        identity=JobIdentity(
            annotations={"azure.workload.identity/client-id": jobs.client_id},
            labels={"azure.workload.identity/use": "true"},
        ),
        refused_pulls=AZURE_LATE_ROLES,
    )


def _grant(  # noqa: PLR0913  # principal, role and scope
    azure: AzureCluster,
    name: str,
    role: str,
    scope: pulumi.Input[str],
    principal: pulumi.Input[str],
    *,
    kind: Principal = "ServicePrincipal",
) -> authorization.RoleAssignment:
    """Assign a role for the resource with ID `scope` to a principal, given by its object ID."""
    # An assignment's name is a UUID, derived from its parts so that none is created twice.
    named = uuid.uuid5(uuid.NAMESPACE_URL, f"{azure.subscription}/{azure.settings.group}/{name}")
    definition = f"providers/Microsoft.Authorization/roleDefinitions/{CONSTANTS['roles'][role]}"
    return authorization.RoleAssignment(
        f"{azure.settings.name}-{name}",
        role_assignment_name=str(named),
        role_definition_id=f"{azure.subscription}/{definition}",
        scope=scope,
        principal_id=principal,
        # A new identity takes time to be known everywhere, so Azure might not find its type.
        principal_type=kind,
        opts=azure.options(fixed=("principalId", "roleDefinitionId", "scope")),
    )


def _kubeconfig(
    azure: AzureCluster, cluster: aks.ManagedCluster, *, admin: bool
) -> pulumi.Output[str]:
    """Return the kubeconfig from AKS, for Entra logins or for the local administrator account."""
    which = {
        "resource_group_name": azure.settings.group,
        # Derived from the cluster's ID, which is known once the cluster exists.
        "resource_name": cluster.id.apply(lambda _: azure.settings.resource_name),
        "opts": pulumi.InvokeOptions(provider=azure.provider),
    }
    if admin:
        listed = aks.list_managed_cluster_admin_credentials_output(**which)
    else:
        listed = aks.list_managed_cluster_user_credentials_output(format="exec", **which)
    encoded: pulumi.Output[str] = listed.apply(lambda result: result.kubeconfigs[0].value)
    return encoded.apply(lambda text: base64.b64decode(text).decode())
