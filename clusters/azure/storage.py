"""The storage account of an AKS stack: data that jobs read, and what they leave."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from pulumi_azure_native import storage

from clusters.azure import names
from clusters.azure.roles import grant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pulumi

    from clusters.azure.identity import Identities
    from clusters.azure.place import Place
    from clusters.azure.roles import Role
    from clusters.azure.settings import Settings

_SMALLEST = 30
"""Bits of the longest prefix that a range may have."""


@dataclass(frozen=True)
class Storage:
    """Where data and artifacts are.

    Args:
        account: The storage account.
        containers: In it, by name.
    """

    account: storage.StorageAccount
    containers: Mapping[str, storage.BlobContainer]


def account(place: Place, subnet: pulumi.Input[str]) -> Storage:
    """Declare the account and its containers.

    It has no key and no public blob, and answers the cluster's nodes and those who may reach its
    API server: what they may do is said by roles.

    https://learn.microsoft.com/azure/storage/blobs/security-recommendations
    """
    settings = place.settings
    name = names.storage(settings)
    made = storage.StorageAccount(
        settings.name,
        account_name=name,
        resource_group_name=place.group_name,
        location=settings.location,
        kind="StorageV2",
        sku=storage.SkuArgs(name=settings.storage.redundancy),
        access_tier="Hot",
        allow_blob_public_access=False,
        allow_shared_key_access=False,
        allow_cross_tenant_replication=False,
        default_to_o_auth_authentication=True,
        enable_https_traffic_only=True,
        minimum_tls_version="TLS1_2",
        network_rule_set=storage.NetworkRuleSetArgs(
            default_action="Deny",
            bypass="AzureServices",
            virtual_network_rules=[
                storage.VirtualNetworkRuleArgs(virtual_network_resource_id=subnet, action="Allow")
            ],
            ip_rules=[
                storage.IPRuleArgs(i_p_address_or_range=each, action="Allow")
                for each in addresses(settings)
            ],
        ),
        tags=place.tags,
        opts=place.opts(),
    )
    days = storage.DeleteRetentionPolicyArgs(enabled=True, days=settings.storage.retention_days)
    storage.BlobServiceProperties(
        settings.name,
        blob_services_name="default",
        account_name=name,
        resource_group_name=place.group_name,
        delete_retention_policy=days,
        container_delete_retention_policy=days,
        opts=place.opts(made),
    )
    containers = {
        container: storage.BlobContainer(
            f"{settings.name}-{container}",
            container_name=container,
            account_name=name,
            resource_group_name=place.group_name,
            public_access="None",
            opts=place.opts(made),
        )
        for container in (names.DATA, names.ARTIFACTS)
    }
    return Storage(made, containers)


def job_rights(place: Place, files: Storage, who: Identities) -> Iterator[pulumi.Resource]:
    """Declare what jobs may do: read data, and write what they leave."""
    rights: dict[str, Role] = {
        names.DATA: "Storage Blob Data Reader",
        names.ARTIFACTS: "Storage Blob Data Contributor",
    }
    for container, role in rights.items():
        yield grant(
            place,
            f"jobs-{container}",
            role=role,
            scope=files.containers[container].id,
            principal=who.jobs.principal_id,
        )


def addresses(settings: Settings) -> list[str]:
    """Return the public addresses that the account answers, as its firewall takes them.

    It takes no /31 and no /32 but single addresses
    (https://learn.microsoft.com/azure/storage/common/storage-network-security-limitations).
    """
    found: list[str] = []
    for each in settings.api.authorized_ranges:
        network = IPv4Network(each)
        found += map(str, network) if network.prefixlen > _SMALLEST else [each]
    return found
