"""Where the resources of a cluster on Azure Local are made, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pulumi
from pulumi_azure_native import Provider
from pulumi_azure_native.resources import ResourceGroup

from clusters.azure.together import Together, options
from clusters.azure_local import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.azure_local.settings import Settings


@dataclass(frozen=True)
class Place:
    """Where the resources of one cluster are made.

    Args:
        settings: What the person asked for.
        parent: Of all of them.
        provider: That makes them.
        group: The name of their resource group.
    """

    settings: Settings
    parent: pulumi.Resource
    provider: Provider
    group: pulumi.Input[str]

    @property
    def tags(self) -> dict[str, str]:
        """What is put on each that may have some."""
        return names.tags(self.settings)

    def opts(
        self,
        depends_on: Sequence[pulumi.Resource] = (),
        ignore: Sequence[str] = (),
        replace_on: Sequence[str] = (),
        most: str = "30m",
    ) -> pulumi.ResourceOptions:
        """Return the options of a resource.

        Args:
            depends_on: What has to be there before, besides what its inputs come from.
            ignore: Properties that others change.
            replace_on: Properties that Azure can't change; names are fixed, so the old one is
                deleted first.
            most: How long making, changing or deleting it may take.
        """
        limits = pulumi.CustomTimeouts(create=most, update=most, delete=most)
        return pulumi.ResourceOptions.merge(
            options(self.parent, depends_on, ignore, replace_on),
            pulumi.ResourceOptions(custom_timeouts=limits),
        )


def prepare(settings: Settings) -> Place:
    """Declare the provider through which everything is made, and the resource group.

    The subscription is said and not taken from whoever is logged in.
    """
    away = settings.disconnected
    provider = Provider(
        f"{settings.name}-azure",
        subscription_id=settings.subscription,
        location=settings.location,
        # With it the addresses of everything else are asked of that host, and of no public one.
        metadata_host=None if away is None else away.control_plane,
        disable_instance_discovery=None if away is None else True,
    )
    parent = Together(
        "slipway:clusters:AzureLocal", settings.name, provider, protect=settings.production
    )
    there = Place(settings, parent, provider, names.resource_group(settings))
    if settings.resource_group is not None:
        return there
    group = ResourceGroup(
        settings.name,
        resource_group_name=names.resource_group(settings),
        location=settings.location,
        tags=there.tags,
        opts=there.opts(),
    )
    # By its output, so that what is in it comes after it.
    return replace(there, group=group.name)
