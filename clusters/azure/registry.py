"""The container registry of an AKS cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_azure_native import containerregistry

from clusters.azure import names
from clusters.azure.roles import grant

if TYPE_CHECKING:
    import pulumi

    from clusters.azure.identity import Identities
    from clusters.azure.place import Place


def registry(place: Place) -> containerregistry.Registry:
    """Declare a registry that knows people and identities, and no password."""
    wanted = place.settings.registry
    return containerregistry.Registry(
        place.settings.name,
        registry_name=names.registry(place.settings),
        resource_group_name=place.group_name,
        location=place.settings.location,
        sku=containerregistry.SkuArgs(name=wanted.sku),
        admin_user_enabled=False,
        anonymous_pull_enabled=False,
        tags=place.tags,
        opts=place.opts(),
    )


def pull_rights(place: Place, made: containerregistry.Registry, who: Identities) -> pulumi.Resource:
    """Declare that nodes may pull from it."""
    granted: pulumi.Resource = grant(
        place,
        "kubelet-pull",
        role="AcrPull",
        scope=made.id,
        principal=who.kubelet.principal_id,
    )
    return granted
