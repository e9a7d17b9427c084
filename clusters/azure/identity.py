"""Who the cluster, its nodes and its jobs are on Azure: no passwords, no keys."""

from dataclasses import dataclass

import pulumi
from pulumi_azure_native import managedidentity

from clusters.azure.place import Place
from clusters.azure.roles import grant
from clusters.cluster import JOB_ACCOUNT, JOBS, JobIdentity

AUDIENCE = "api://AzureADTokenExchange"
"""Of the tokens that Entra takes
(https://learn.microsoft.com/azure/aks/workload-identity-overview)."""


@dataclass(frozen=True)
class Identities:
    """The identities of one cluster.

    Args:
        control: The control plane's.
        kubelet: The nodes', with which images are pulled.
        jobs: That of the account which jobs run as.
        granted: What has to be there before the cluster.
    """

    control: managedidentity.UserAssignedIdentity
    kubelet: managedidentity.UserAssignedIdentity
    jobs: managedidentity.UserAssignedIdentity
    granted: tuple[pulumi.Resource, ...]


def identities(place: Place, subnet: pulumi.Input[str]) -> Identities:
    """Declare the identities, and what the control plane may do: join the subnet, use the nodes'.

    https://learn.microsoft.com/azure/aks/use-managed-identity
    """
    control, kubelet, jobs = (_identity(place, part) for part in ("control", "kubelet", "jobs"))
    granted = (
        grant(
            place,
            "control-network",
            role="Network Contributor",
            scope=subnet,
            principal=control.principal_id,
        ),
        grant(
            place,
            "control-kubelet",
            role="Managed Identity Operator",
            scope=kubelet.id,
            principal=control.principal_id,
        ),
    )
    return Identities(control, kubelet, jobs, granted)


def trust(
    place: Place, jobs: managedidentity.UserAssignedIdentity, issuer: pulumi.Input[str]
) -> managedidentity.FederatedIdentityCredential:
    """Declare that jobs, and no other pods, are that identity.

    Args:
        place: Where the stack is.
        jobs: The identity.
        issuer: Of the tokens of the cluster's accounts.
    """
    return managedidentity.FederatedIdentityCredential(
        f"{place.settings.name}-jobs",
        federated_identity_credential_resource_name="slipway-jobs",
        resource_group_name=place.group_name,
        resource_name_=_name(place, "jobs"),
        issuer=issuer,
        subject=f"system:serviceaccount:{JOBS}:{JOB_ACCOUNT}",
        audiences=[AUDIENCE],
        opts=place.opts(jobs),
    )


def for_pods(jobs: managedidentity.UserAssignedIdentity) -> JobIdentity:
    """Return what makes pods that identity.

    AKS gives a pod with that label a token of its account's identity. adlfs, by which a job's
    `outputs` are copied out, logs in with it where it is given no key
    (https://github.com/fsspec/adlfs#setting-credentials).
    """
    return JobIdentity(
        annotations={"azure.workload.identity/client-id": jobs.client_id},
        labels={"azure.workload.identity/use": "true"},
    )


def _identity(place: Place, part: str) -> managedidentity.UserAssignedIdentity:
    name = _name(place, part)
    return managedidentity.UserAssignedIdentity(
        name,
        resource_name_=name,
        resource_group_name=place.group_name,
        location=place.settings.location,
        tags=place.tags,
        opts=place.opts(),
    )


def _name(place: Place, part: str) -> str:
    return f"{place.settings.name}-{part}"
