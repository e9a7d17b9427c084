"""What is left of an Azure Local cluster in Azure once its stack has been destroyed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clusters.azure.remains import az, exists, removal, unasked
from clusters.azure_local.names import TAG, resource_group
from core.process import CommandFailed

if TYPE_CHECKING:
    from clusters.azure_local.settings import Settings
    from clusters.cluster import Remains


def remains(settings: Settings) -> Remains:
    """Return what is still there, as far as Azure can be asked; see `clusters.azure.remains`.

    The machines go with what stands for them in Azure.
    """
    group, subscription = resource_group(settings), settings.subscription
    kind = "resource groups" if settings.resource_group is None else "Azure resources"
    try:
        if settings.resource_group is not None:
            return {kind: _tagged(settings)}
        return {kind: [removal(subscription, group)] if exists(subscription, group) else []}
    except CommandFailed as error:
        return unasked(kind, error)


def _tagged(settings: Settings) -> list[str]:
    """Return what bears the cluster's name in a resource group that is somebody else's."""
    group = resource_group(settings)
    listed = json.loads(az(settings.subscription, "resource", "list", "--resource-group", group))
    return [
        f"{each['type']} {each['name']}: az resource delete --ids {each['id']}"
        for each in listed
        if (each.get("tags") or {}).get(TAG) == settings.name
    ]
