"""Where an Azure stack's resources are made, and what they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_azure_native import Provider
from pulumi_azure_native.resources import ResourceGroup

from clusters.azure import names
from clusters.azure.together import Together, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.azure.settings import Settings


@dataclass(frozen=True)
class Place:
    """Where the resources of one cluster are made.

    Names are told as text and not as outputs of what bears them, so that a preview shows them; what
    has to be there before is said besides.

    Args:
        settings: What the person asked for.
        parent: Of all of them.
        provider: That makes them.
        group: Their resource group.
    """

    settings: Settings
    parent: pulumi.Resource
    provider: Provider
    group: ResourceGroup

    @property
    def group_name(self) -> str:
        """What their resource group is called."""
        return names.resource_group(self.settings)

    @property
    def tags(self) -> dict[str, str]:
        """What each of them is tagged with."""
        return names.tags(self.settings)

    def opts(
        self,
        *depends_on: pulumi.Resource,
        ignore: Sequence[str] = (),
        replace_on: Sequence[str] = (),
    ) -> pulumi.ResourceOptions:
        """Return the options of a resource.

        Args:
            depends_on: What has to be there before, besides the group and what inputs come from.
            ignore: Properties that others change.
            replace_on: Properties that Azure can't change; names are fixed, so the old one is
                deleted first.
        """
        return options(self.parent, [self.group, *depends_on], ignore, replace_on)


def prepare(settings: Settings) -> Place:
    """Declare the resource group, and the provider through which everything on Azure is made.

    The subscription is said and not taken from whoever is logged in: it is the one that pays.
    """
    provider = Provider(
        f"{settings.name}-azure",
        subscription_id=settings.subscription,
        location=settings.location,
    )
    parent = Together("slipway:clusters:Aks", settings.name, provider, protect=settings.production)
    group = ResourceGroup(
        settings.name,
        resource_group_name=names.resource_group(settings),
        location=settings.location,
        tags=names.tags(settings),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    return Place(settings, parent, provider, group)
