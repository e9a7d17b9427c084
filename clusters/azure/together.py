"""What the resources of every kind of cluster on Azure have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pulumi_azure_native import Provider


class Together(pulumi.ComponentResource):
    """Everything that a cluster is made of, under one name and through one provider.

    Args:
        token: Its type, such as `slipway:clusters:Aks`.
        name: The cluster's.
        provider: That makes all of it.
        protect: Whether nothing of it may be deleted.
    """

    def __init__(self, token: str, name: str, provider: Provider, *, protect: bool) -> None:
        # Whatever has this one for a parent inherits both.
        opts = pulumi.ResourceOptions(providers=[provider], protect=protect)
        super().__init__(token, name, None, opts)
        self.register_outputs({})


def options(
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource],
    ignore: Sequence[str],
    replace_on: Sequence[str],
) -> pulumi.ResourceOptions:
    """Return the options of a resource.

    Args:
        parent: Of it.
        depends_on: What has to be there before, besides what its inputs come from.
        ignore: Properties that others change.
        replace_on: Properties that Azure can't change; names are fixed, so the old one is deleted
            first.
    """
    return pulumi.ResourceOptions(
        parent=parent,
        depends_on=list(depends_on),
        ignore_changes=list(ignore),
        replace_on_changes=list(replace_on),
        delete_before_replace=True if replace_on else None,
    )
