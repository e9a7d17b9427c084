"""What keeps a production cluster from being deleted by mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_azure_native import authorization

if TYPE_CHECKING:
    from pulumi_azure_native import kubernetes

    from clusters.azure_local.place import Place


def lock(place: Place, cluster: kubernetes.ConnectedCluster) -> authorization.ManagementLockByScope:
    """Declare that neither the cluster nor a pool of it may be deleted, by whatever tool.

    Pulumi's own protection, which `Together` hands down, is for Pulumi alone.

    https://learn.microsoft.com/azure/azure-resource-manager/management/lock-resources
    """
    return authorization.ManagementLockByScope(
        place.settings.name,
        lock_name="slipway-production",
        scope=cluster.id,
        level="CanNotDelete",
        notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
        opts=place.opts(),
    )
