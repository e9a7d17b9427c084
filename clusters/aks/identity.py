"""Who may do what on Azure: identities without passwords and keys, and their roles."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import pulumi
from pulumi_azure_native import authorization, containerservice, managedidentity

from clusters.cluster import JOB_ACCOUNT, JOBS, JobIdentity

if TYPE_CHECKING:
    from clusters.aks.settings import Admins
    from clusters.azure.resources import AzureCluster

AUDIENCE = "api://AzureADTokenExchange"
"""Of the tokens that Entra takes
(https://learn.microsoft.com/azure/aks/workload-identity-overview)."""


class Role(StrEnum):
    """The IDs of built-in roles: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles."""

    ACR_PULL = "7f951dda-4ed3-4680-a7ca-43fe172d538d"
    ACR_PUSH = "8311e382-0749-4cb8-b61a-304f252e45ec"
    AKS_RBAC_CLUSTER_ADMIN = "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b"
    NETWORK_CONTRIBUTOR = "4d97b98b-1d4f-4787-a291-c67834d212e7"
    STORAGE_BLOB_DATA_CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
    STORAGE_BLOB_DATA_READER = "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1"


_OF_ADMINS = {
    "cluster": Role.AKS_RBAC_CLUSTER_ADMIN,
    "registry": Role.ACR_PUSH,
    "storage": Role.STORAGE_BLOB_DATA_CONTRIBUTOR,
}


class Identities:
    """The identities that one cluster gets; AKS makes that of its nodes by itself.

    One of ours for the nodes would need a role before the cluster, and AKS refuses a cluster whose
    role is not known everywhere yet (CustomKubeletIdentityMissingPermissionError).
    https://learn.microsoft.com/azure/aks/use-managed-identity

    Attributes:
        control: The control plane's.
        jobs: That of the account which jobs run as.
        granted: What has to exist before the cluster: the control plane may join the subnet.
    """

    def __init__(self, azure: AzureCluster, subnet: pulumi.Input[str]) -> None:
        self.control, self.jobs = (
            _identity(azure, f"{azure.cluster_name}-{part}") for part in ("control", "jobs")
        )
        principal = self.control.principal_id
        self.granted = grant(azure, "control-network", Role.NETWORK_CONTRIBUTOR, subnet, principal)


def of_nodes(cluster: containerservice.ManagedCluster) -> pulumi.Output[str]:
    """Return the object ID of the identity that AKS has made for the cluster's nodes."""
    found: pulumi.Output[str] = cluster.identity_profile.apply(
        lambda profile: profile["kubeletidentity"].object_id
    )
    return found


def trust_jobs(
    azure: AzureCluster, jobs: managedidentity.UserAssignedIdentity, issuer: pulumi.Input[str]
) -> pulumi.Resource:
    """Declare that the pods of jobs, and no others, are that identity, by the issuer's tokens."""
    trusted: pulumi.Resource = managedidentity.FederatedIdentityCredential(
        f"{azure.cluster_name}-jobs",
        federated_identity_credential_resource_name="slipway-jobs",
        resource_group_name=azure.group_name,
        resource_name_=f"{azure.cluster_name}-jobs",
        issuer=issuer,
        subject=f"system:serviceaccount:{JOBS}:{JOB_ACCOUNT}",
        audiences=[AUDIENCE],
        opts=azure.opts(jobs),
    )
    return trusted


def of_pods(jobs: managedidentity.UserAssignedIdentity) -> JobIdentity:
    """Return what makes pods that identity.

    AKS gives a pod with that label a token of its account's identity. adlfs, by which a job's
    `outputs` are copied out, logs in with it where it has no key
    (https://github.com/fsspec/adlfs#setting-credentials).
    """
    return JobIdentity(
        annotations={"azure.workload.identity/client-id": jobs.client_id},
        labels={"azure.workload.identity/use": "true"},
    )


def administrators(
    azure: AzureCluster, admins: Admins, **scopes: pulumi.Input[str]
) -> Iterator[pulumi.Resource]:
    """Declare what each administrator may do to the `cluster`, `registry`, `storage` of an ID."""
    kinds: Mapping[Literal["Group", "User", "ServicePrincipal"], tuple[str, ...]] = {
        "Group": admins.groups,
        "User": admins.users,
        "ServicePrincipal": admins.service_principals,
    }
    for kind, principals in kinds.items():
        for principal in principals:
            for where, scope in scopes.items():
                name = f"{where}-{principal}"
                yield grant(azure, name, _OF_ADMINS[where], scope, principal, kind=kind)


def grant(  # noqa: PLR0913  # who may do what where
    azure: AzureCluster,
    name: str,
    role: Role,
    scope: pulumi.Input[str],
    principal: pulumi.Input[str],
    *,
    kind: Literal["ServicePrincipal", "User", "Group"] = "ServicePrincipal",
) -> authorization.RoleAssignment:
    """Declare that the principal with an object ID has a role for what has the ID `scope`.

    The principal's kind is passed, because a new identity is not known everywhere at once
    (https://learn.microsoft.com/azure/role-based-access-control/role-assignments-template).
    """
    subscription = f"/subscriptions/{azure.subscription}"
    # An assignment is named by a UUID. The same one each time, so that none is made twice.
    named = uuid.uuid5(uuid.NAMESPACE_URL, f"{subscription}/{azure.group_name}/{name}")
    definition = f"providers/Microsoft.Authorization/roleDefinitions/{role}"
    return authorization.RoleAssignment(
        f"{azure.cluster_name}-{name}",
        role_assignment_name=str(named),
        role_definition_id=f"{subscription}/{definition}",
        scope=scope,
        principal_id=principal,
        principal_type=kind,
        opts=azure.opts(replace_on=["principalId", "roleDefinitionId", "scope"]),
    )


def _identity(azure: AzureCluster, name: str) -> managedidentity.UserAssignedIdentity:
    return managedidentity.UserAssignedIdentity(
        name, resource_name_=name, **azure.placed, opts=azure.opts()
    )
