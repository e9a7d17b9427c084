"""Diagnostic logs: who did what, and why the cluster did what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
from pulumi_azure_native import monitor, operationalinsights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusters.azure.place import Place

CATEGORIES: Mapping[str, Sequence[str]] = {
    # Without `kube-audit`, which has every read besides, and costs by far the most:
    # https://learn.microsoft.com/azure/aks/monitor-aks-reference#resource-logs
    "cluster": (
        "kube-apiserver",
        "kube-audit-admin",
        "kube-controller-manager",
        "kube-scheduler",
        "cluster-autoscaler",
        "guard",
    ),
    # https://learn.microsoft.com/azure/container-registry/monitor-container-registry-reference
    "registry": ("ContainerRegistryLoginEvents", "ContainerRegistryRepositoryEvents"),
    # https://learn.microsoft.com/azure/storage/blobs/monitor-blob-storage-reference
    "blobs": ("StorageWrite", "StorageDelete"),
}
"""What is kept of each resource."""


def logs(place: Place, **resources: pulumi.Input[str]) -> None:
    """Declare where logs are kept, for how long and how much a day, and which.

    Args:
        place: Where the stack is.
        resources: The ID of each resource that is a key of `CATEGORIES`.
    """
    settings = place.settings
    workspace = operationalinsights.Workspace(
        settings.name,
        workspace_name=f"slipway-{settings.name}",
        resource_group_name=place.group_name,
        location=settings.location,
        sku=operationalinsights.WorkspaceSkuArgs(name="PerGB2018"),
        retention_in_days=settings.logs.retention_days,
        workspace_capping=operationalinsights.WorkspaceCappingArgs(
            daily_quota_gb=settings.logs.daily_gib
        ),
        # Its keys are for agents, of which there are none.
        features=operationalinsights.WorkspaceFeaturesArgs(disable_local_auth=True),
        tags=place.tags,
        opts=place.opts(),
    )
    for name, resource in resources.items():
        monitor.DiagnosticSetting(
            f"{settings.name}-{name}",
            name="slipway",
            resource_uri=resource,
            workspace_id=workspace.id,
            # Tables of their own, which say what their columns mean.
            log_analytics_destination_type="Dedicated",
            logs=[
                monitor.DiagnosticsLogSettingsArgs(category=each, enabled=True)
                for each in CATEGORIES[name]
            ],
            opts=place.opts(),
        )
