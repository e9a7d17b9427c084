"""Azure's built-in roles, and who has them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Literal

from pulumi_azure_native import authorization

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pulumi

    from clusters.azure.place import Place

Role = Literal[
    "AcrPull",
    "AcrPush",
    "Azure Kubernetes Service RBAC Cluster Admin",
    "Managed Identity Operator",
    "Network Contributor",
    "Storage Blob Data Contributor",
    "Storage Blob Data Reader",
]
ROLES: Mapping[Role, str] = {
    "AcrPull": "7f951dda-4ed3-4680-a7ca-43fe172d538d",
    "AcrPush": "8311e382-0749-4cb8-b61a-304f252e45ec",
    "Azure Kubernetes Service RBAC Cluster Admin": "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b",
    "Managed Identity Operator": "f1a07417-d97a-45cb-824c-7a7467783830",
    "Network Contributor": "4d97b98b-1d4f-4787-a291-c67834d212e7",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Reader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
}
"""Each role's ID: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles"""

_TO_PEOPLE: Mapping[str, Role] = {
    "cluster": "Azure Kubernetes Service RBAC Cluster Admin",
    "registry": "AcrPush",
    "storage": "Storage Blob Data Contributor",
}


def grant(  # noqa: PLR0913  # who may do what where, said by keyword
    place: Place,
    name: str,
    *,
    role: Role,
    scope: pulumi.Input[str],
    principal: pulumi.Input[str],
    kind: Literal["ServicePrincipal", "User", "Group"] = "ServicePrincipal",
) -> authorization.RoleAssignment:
    """Declare that a principal has a role.

    Args:
        place: Where the stack is.
        name: Of the resource.
        role: Which.
        scope: The ID of what it may be done to.
        principal: The object ID of who may do it.
        kind: What that is. Said, because a new identity is not known everywhere at once
            (https://learn.microsoft.com/azure/role-based-access-control/role-assignments-template).
    """
    subscription = f"/subscriptions/{place.settings.subscription}"
    # An assignment is named by a UUID. The same one each time, so that none is made twice.
    named = uuid.uuid5(uuid.NAMESPACE_URL, f"{subscription}/{place.group_name}/{name}")
    definition = f"providers/Microsoft.Authorization/roleDefinitions/{ROLES[role]}"
    return authorization.RoleAssignment(
        f"{place.settings.name}-{name}",
        role_assignment_name=str(named),
        role_definition_id=f"{subscription}/{definition}",
        scope=scope,
        principal_id=principal,
        principal_type=kind,
        opts=place.opts(replace_on=["principalId", "roleDefinitionId", "scope"]),
    )


def administrators(place: Place, **scopes: pulumi.Input[str]) -> Iterator[pulumi.Resource]:
    """Declare what each administrator may do, and yield it.

    Args:
        place: Where the stack is.
        scopes: The ID of the `cluster`, the `registry` and the `storage` account.
    """
    admins = place.settings.admins
    kinds: Mapping[Literal["Group", "User", "ServicePrincipal"], tuple[str, ...]] = {
        "Group": admins.groups,
        "User": admins.users,
        "ServicePrincipal": admins.service_principals,
    }
    for kind, principals in kinds.items():
        for principal in principals:
            for where, scope in scopes.items():
                yield grant(
                    place,
                    f"{where}-{principal}",
                    role=_TO_PEOPLE[where],
                    scope=scope,
                    principal=principal,
                    kind=kind,
                )
