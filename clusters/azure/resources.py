"""What all Azure resources of a cluster have in common: parent, provider, resource group, lock."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_azure_native import Provider, authorization, resources

from clusters.azure.kubeconfig import Login, logging_in

if TYPE_CHECKING:
    from clusters.azure.settings import AzureSettings


class AzureCluster(pulumi.ComponentResource):
    """The parent of all Azure resources of one cluster.

    Names are passed as text and not as outputs of the resources that have them, so that a preview
    shows them; `opts` says what has to exist before.

    Args:
        token: Its type, such as `slipway:clusters:Aks`.
        settings: Of the cluster. The subscription is theirs and not that of whoever is logged in:
            it is the one that pays.
        own_group: Whether the stack makes the resource group.
        metadata_host: Of a control plane of one's own, which is then asked for all other
            addresses; None for the public one.
        timeout: How long making, changing or deleting a resource may take; None for Pulumi's own.
    """

    def __init__(
        self,
        token: str,
        settings: AzureSettings,
        *,
        own_group: bool = True,
        metadata_host: str | None = None,
        timeout: str | None = None,
    ) -> None:
        self.cluster_name = settings.name
        self.subscription = settings.subscription
        self.group_name = settings.group
        self.location = settings.location
        self.tags = settings.all_tags
        self.timeout = timeout
        self.provider = Provider(
            f"{settings.name}-azure",
            subscription_id=settings.subscription,
            location=settings.location,
            metadata_host=metadata_host,
            disable_instance_discovery=None if metadata_host is None else True,
        )
        # Its children inherit both.
        opts = pulumi.ResourceOptions(providers=[self.provider], protect=settings.production)
        super().__init__(token, settings.name, None, opts)
        self.group: list[resources.ResourceGroup] = []
        if own_group:
            made = resources.ResourceGroup(settings.name, **self.placed, opts=self.opts())
            self.group.append(made)
        self.register_outputs({})

    @property
    def placed(self) -> dict[str, Any]:
        """The inputs that say where a resource is and which tags it has."""
        return {
            "resource_group_name": self.group_name,
            "location": self.location,
            "tags": self.tags,
        }

    def opts(
        self,
        *depends_on: pulumi.Resource,
        ignore: Sequence[str] = (),
        replace_on: Sequence[str] = (),
        timeout: str | None = None,
    ) -> pulumi.ResourceOptions:
        """Return the options of a resource.

        Args:
            depends_on: What has to exist before, besides the group and what inputs come from.
            ignore: Properties that others change.
            replace_on: Properties that Azure can't change; names are fixed, so the old resource is
                deleted first.
            timeout: Instead of the cluster's.
        """
        limit = timeout or self.timeout
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=[*self.group, *depends_on],
            ignore_changes=list(ignore),
            replace_on_changes=list(replace_on),
            delete_before_replace=True if replace_on else None,
            custom_timeouts=pulumi.CustomTimeouts(limit, limit, limit) if limit else None,
        )

    def lock(self, scope: pulumi.Input[str]) -> None:
        """Declare that what has that ID can't be deleted, by whatever tool.

        Pulumi's own protection, which the children of this one inherit, is for Pulumi alone.

        https://learn.microsoft.com/azure/azure-resource-manager/management/lock-resources
        """
        authorization.ManagementLockByScope(
            self.cluster_name,
            lock_name="slipway-production",
            scope=scope,
            level="CanNotDelete",
            notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
            opts=self.opts(),
        )


def kubeconfig(listed: pulumi.Output[Any], how: Login | None) -> pulumi.Output[str]:
    """Return the first of the kubeconfigs that Azure lists, as a secret.

    Args:
        listed: With `kubeconfigs`.
        how: In what way kubelogin logs in; None for the administrator's, which needs none.
    """

    def first(found: Any) -> str:
        text = base64.b64decode(found.kubeconfigs[0].value).decode()
        return text if how is None else logging_in(text, how)

    return pulumi.Output.secret(listed.apply(first))
