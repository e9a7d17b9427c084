"""The Azure services that an AKS cluster uses: registry, storage, diagnostic logs and budget."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Network

from pulumi import Input
from pulumi_azure_native import (
    consumption,
    containerregistry,
    monitor,
    operationalinsights,
    storage,
)

from clusters.aks.settings import CONSTANTS, AksSettings, Budget, Logs
from clusters.azure.resources import AzureCluster, within


def registry(azure: AzureCluster, settings: AksSettings) -> containerregistry.Registry:
    """Declare the container registry, which accepts Entra logins but not passwords."""
    return containerregistry.Registry(
        azure.settings.name,
        registry_name=settings.registry_name,
        sku={"name": settings.registry.sku},
        **CONSTANTS["registry"],
        **azure.placed(),
    )


def storage_account(
    azure: AzureCluster, settings: AksSettings, subnet: Input[str], containers: Iterable[str]
) -> tuple[storage.StorageAccount, Mapping[str, storage.BlobContainer]]:
    """Declare the storage account and its containers, and return both.

    Only the nodes, and the address ranges that can reach the API server, have access.
    """
    account = storage.StorageAccount(
        azure.settings.name,
        account_name=settings.storage_name,
        **CONSTANTS["storage"],
        sku={"name": settings.storage.redundancy},
        network_rule_set={
            "default_action": "Deny",
            "bypass": "AzureServices",
            "virtual_network_rules": [{"virtual_network_resource_id": subnet, "action": "Allow"}],
            "ip_rules": [
                {"i_p_address_or_range": each, "action": "Allow"}
                for each in _firewall(settings.api.authorized_ranges)
            ],
        },
        **azure.placed(),
    )
    name = within(settings.storage_name, account)
    kept = {"enabled": True, "days": settings.storage.retention_days}
    storage.BlobServiceProperties(
        azure.settings.name,
        blob_services_name="default",
        account_name=name,
        delete_retention_policy=kept,
        container_delete_retention_policy=kept,
        **azure.grouped(account),
    )
    return account, {
        each: storage.BlobContainer(
            f"{azure.settings.name}-{each}",
            container_name=each,
            account_name=name,
            public_access="None",
            **azure.grouped(account),
        )
        for each in containers
    }


def diagnostic_logs(azure: AzureCluster, settings: Logs, **resources: Input[str]) -> None:
    """Declare which logs to keep; `resources` are the IDs of `cluster`, `registry`, `blobs`."""
    workspace = operationalinsights.Workspace(
        azure.settings.name,
        workspace_name=f"slipway-{azure.settings.name}",
        **CONSTANTS["workspace"],
        retention_in_days=settings.retention_days,
        workspace_capping={"daily_quota_gb": settings.daily_gib},
        **azure.placed(),
    )
    for name, resource in resources.items():
        monitor.DiagnosticSetting(
            f"{azure.settings.name}-{name}",
            name="slipway",
            resource_uri=resource,
            workspace_id=workspace.id,
            # Dedicated tables have documented columns.
            log_analytics_destination_type="Dedicated",
            logs=[{"category": each, "enabled": True} for each in CONSTANTS["logs"][name]],
            opts=azure.options(),
        )


def budget(azure: AzureCluster, settings: Budget, groups: Sequence[str]) -> None:
    """Declare a monthly budget for the resource groups, including the one that AKS creates."""
    consumption.Budget(
        azure.settings.name,
        budget_name=f"slipway-{azure.settings.name}",
        scope=azure.subscription,
        **CONSTANTS["budget"],
        amount=settings.amount,
        time_period={"start_date": datetime.now(UTC).strftime("%Y-%m-01T00:00:00Z")},
        filter={"dimensions": {"name": "ResourceGroupName", "operator": "In", "values": [*groups]}},
        notifications={
            f"{kind}{percent}": {
                **CONSTANTS["alert"],
                "threshold": percent,
                "threshold_type": kind,
                "contact_emails": list(settings.emails),
            }
            for kind, percent in CONSTANTS["alerts"]
        },
        # A budget must begin in the month of its creation; later changes do not matter.
        opts=azure.options(ignore_changes=["timePeriod"]),
    )


def _firewall(ranges: Sequence[str]) -> Iterator[str]:
    """Yield ranges for a storage firewall, which accepts a /31 or /32 only as single addresses."""
    # https://learn.microsoft.com/azure/storage/common/storage-network-security-limitations
    for each in ranges:
        network = IPv4Network(each)
        yield from map(str, network) if network.prefixlen > 30 else [each]
