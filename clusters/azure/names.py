"""What everything on Azure is called: known before anything is there."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusters.azure.settings import Settings

DATA, ARTIFACTS = "data", "artifacts"
"""The storage account's containers."""


def resource_group(settings: Settings) -> str:
    """Everything but the nodes is in it."""
    said = settings.resource_group
    return f"slipway-{settings.name}" if said is None else said


def node_group(settings: Settings) -> str:
    """The resource group that AKS makes for the nodes, their disks and addresses."""
    return f"{resource_group(settings)}-nodes"


def registry(settings: Settings) -> str:
    """The container registry, unique in all of Azure."""
    said = settings.registry.name
    return _unique(settings, 50) if said is None else said


def registry_server(settings: Settings) -> str:
    """The registry's address."""
    return f"{registry(settings).lower()}.azurecr.io"


def storage(settings: Settings) -> str:
    """The storage account, unique in all of Azure."""
    said = settings.storage.name
    return _unique(settings, 24) if said is None else said


def tags(settings: Settings) -> dict[str, str]:
    """What every resource is tagged with."""
    return {"managed-by": "slipway", "slipway-cluster": settings.name, **settings.tags}


def cluster_id(settings: Settings) -> str:
    """The cluster, as Azure names it."""
    group = f"/subscriptions/{settings.subscription}/resourceGroups/{resource_group(settings)}"
    return f"{group}/providers/Microsoft.ContainerService/managedClusters/{settings.name}"


def _unique(settings: Settings, most: int) -> str:
    """Return a name that stays the same for this cluster, and that nobody else will have."""
    owner = f"{settings.subscription}/{resource_group(settings)}".lower()
    # No secret: it only has to be another one for another owner.
    digest = hashlib.sha256(owner.encode()).hexdigest()[:8]
    readable = re.sub("[^a-z0-9]", "", f"slipway{settings.name}")
    return readable[: most - len(digest)] + digest
