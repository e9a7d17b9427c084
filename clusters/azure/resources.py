"""What both kinds declare: the parent of all resources, a group, a lock; and the kubeconfig."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes
import yaml
from pulumi_azure_native import Provider, authorization, resources

from clusters.cluster import Cluster
from core.process import CommandFailed, run
from images.resource import helper_images

if TYPE_CHECKING:
    from clusters.azure.settings import AzureSettings, Login


class AzureCluster(pulumi.ComponentResource):
    """The parent of all Azure resources of one cluster.

    Names are passed as text and not as outputs of the resources that have them, so that a preview
    shows them; `opts` names what has to exist before. The settings' subscription pays, whatever
    `az login` has chosen. Without a `timeout` of its own, a resource has Pulumi's.
    """

    def __init__(self, token: str, settings: AzureSettings, timeout: str | None = None) -> None:
        self.settings = settings
        self.cluster_name = settings.name
        self.resource_name = settings.resource_name
        self.group_name = settings.group
        self.timeout = timeout
        self.provider = Provider(
            f"{settings.name}-azure",
            subscription_id=settings.subscription,
            tenant_id=settings.tenant,
            location=settings.location,
            metadata_host=settings.metadata_host,
            disable_instance_discovery=None if settings.metadata_host is None else True,
        )
        # Its children inherit both.
        opts = pulumi.ResourceOptions(providers=[self.provider], protect=settings.production)
        super().__init__(token, settings.name, None, opts)
        self.group: list[resources.ResourceGroup] = []
        if settings.own_groups:
            self.group = [resources.ResourceGroup(settings.name, **self.placed, opts=self.opts())]
        self.register_outputs({})

    @property
    def placed(self) -> dict[str, Any]:
        """The inputs for a resource's location and tags."""
        return {
            "resource_group_name": self.group_name,
            "location": self.settings.location,
            "tags": self.settings.all_tags,
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
            replace_on: Properties that Azure can't change: the old resource is deleted first, since
                names are fixed.
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
        opts = self.opts()
        # Its parent's protection would refuse to remove it before the parent's own ends.
        opts.protect = False
        authorization.ManagementLockByScope(
            self.cluster_name,
            lock_name="slipway-production",
            scope=scope,
            level="CanNotDelete",
            notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
            opts=opts,
        )

    def connected(  # noqa: PLR0913  # how it is reached, what it needs, and what it is
        self,
        listed: pulumi.Output[str],
        target: Mapping[str, Any],
        *,
        identifier: str,
        advice: str,
        after: Sequence[pulumi.Resource],
        lasting: Mapping[str, Any] = MappingProxyType({}),
        **facts: Any,
    ) -> Cluster:
        """Return the cluster, once it answers and lets this account in.

        Args:
            listed: The kubeconfig that Azure lists: the administrator's with `adminKubeconfig`.
            target: How images get in.
            identifier: Of the cluster, whatever its kubeconfig is.
            advice: What to do when it does not: one sentence.
            after: What has to exist before.
            lasting: What a preview says of changes, as `access` takes it.
            **facts: What else `Cluster` has.
        """
        settings = self.settings
        text = listed
        if not settings.admin_kubeconfig:
            text = listed.apply(lambda found: logging_in(found, settings.login, settings.tenant))
        text = pulumi.Output.secret(text)
        helpers, images = helper_images(target)
        access = pulumi.CustomResource(
            "slipway:clusters:Access",
            settings.name,
            {"name": settings.name, "kubeconfig": text, "advice": advice, **lasting},
            pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        group = f"/subscriptions/{settings.subscription}/resourceGroups/{settings.group}"
        provider = pulumi_kubernetes.Provider(
            settings.name,
            kubeconfig=text,
            # The kubeconfig may change, and this is still the same cluster.
            cluster_identifier=f"{group}/{identifier}",
            opts=pulumi.ResourceOptions(depends_on=[access, *images]),
        )
        return Cluster(
            provider=provider, kubeconfig=text, image_target=target, images=helpers, **facts
        )


def logging_in(text: str, login: Login, tenant: str | None = None) -> str:
    """Return a kubeconfig, as Azure lists it with the format `exec`, with this way to log in.

    Azure's own waits until you type a code into a browser, which `pulumi up` can't do. What a login
    takes of the kubeconfig, such as proof of possession, is kubelogin's to know
    (https://azure.github.io/kubelogin/cli/convert-kubeconfig.html). `tenant` replaces the login's.

    Raises:
        pulumi.RunError: a user in it has anything else than kubelogin to log in with, kubelogin is
            not installed, or it can't convert the kubeconfig.
    """
    for user in yaml.safe_load(text)["users"]:
        if others := ", ".join(sorted(user["user"].keys() - {"exec"})):
            raise pulumi.RunError(
                f"the kubeconfig of {user['name']} has {others} in it, not kubelogin alone: is the "
                "cluster without Entra, or are its local accounts on? With adminKubeconfig: true "
                "those are used"
            )
    with TemporaryDirectory(prefix="slipway-") as directory:
        file = Path(directory, "kubeconfig")
        file.write_text(text)
        words = ["--kubeconfig", str(file), "--login", login]
        words += [] if tenant is None else ["--tenant-id", tenant]
        try:
            run("kubelogin", "convert-kubeconfig", *words)
        except CommandFailed as error:
            raise pulumi.RunError(
                f"there is no login to the cluster: {error}. `az aks install-cli` installs "
                "kubelogin; adminKubeconfig: true needs none"
            ) from None
        return file.read_text()
