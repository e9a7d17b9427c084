"""What keeps a production stack from being deleted by mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_azure_native import authorization

if TYPE_CHECKING:
    from clusters.azure.place import Place


def lock(place: Place) -> authorization.ManagementLockByScope:
    """Declare that nothing in the resource group may be deleted, by whatever tool.

    Pulumi's own protection, which `Aks` hands down, is for Pulumi alone.

    https://learn.microsoft.com/azure/azure-resource-manager/management/lock-resources
    """
    return authorization.ManagementLockByScope(
        place.settings.name,
        lock_name="slipway-production",
        scope=place.group.id,
        level="CanNotDelete",
        notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
        opts=place.opts(),
    )
