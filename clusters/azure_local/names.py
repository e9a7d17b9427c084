"""What everything of an Azure Local cluster is called: known before anything is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusters.azure_local.settings import Settings

TAG = "slipway-cluster"
"""Tells whose a resource is; its value is the cluster's name."""


def resource_group(settings: Settings) -> str:
    """Everything is in it."""
    said = settings.resource_group
    return f"slipway-{settings.name}" if said is None else said


def tags(settings: Settings) -> dict[str, str]:
    """What every resource is tagged with that may be."""
    return {"managed-by": "slipway", TAG: settings.name, **settings.tags}


def identifier(settings: Settings) -> str:
    """Return what tells this cluster from any other, whatever becomes of its kubeconfig."""
    group = f"/subscriptions/{settings.subscription}/resourceGroups/{resource_group(settings)}"
    return f"{group}/{settings.name}"
