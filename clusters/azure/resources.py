"""Resources for both Azure kinds: component, resource group, locks and kubeconfig."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pulumi
import yaml
from pulumi_azure_native import Provider, authorization, resources

from clusters.azure.settings import AzureSettings, Login
from clusters.cluster import Cluster
from core import tokens
from core.declare import provider_of
from core.manifests import stack
from core.process import CommandFailed, run
from images.resource import helper_images


class AzureCluster(pulumi.ComponentResource):
    """The parent of all Azure resources of one cluster, with the settings that they share.

    Each resource depends on `group` and on its other prerequisites. `timeout` is the default for
    all resources; if it is None, Pulumi's default applies.
    """

    def __init__(self, token: str, settings: AzureSettings, timeout: str | None = None) -> None:
        self.settings = settings
        self.subscription = f"/subscriptions/{settings.subscription}"
        own = {"slipway-cluster": settings.name, "slipway-stack": stack()}
        self.tags = {"managed-by": "slipway", **own, **settings.tags}
        self.timeout = timeout
        self.provider = Provider(
            f"{settings.name}-azure",
            subscription_id=settings.subscription,
            tenant_id=settings.tenant,
            location=settings.location,
            metadata_host=settings.metadata_host,
            disable_instance_discovery=None if settings.metadata_host is None else True,
        )
        # Child resources inherit both options.
        opts = pulumi.ResourceOptions(providers=[self.provider], protect=settings.production)
        super().__init__(token, settings.name, None, opts)
        terms, opts = f"{settings.name}-settings", pulumi.ResourceOptions(parent=self)
        # The first, as it may refuse a change.
        self.terms = pulumi.CustomResource(tokens.CLUSTER_ACCESS, terms, {**settings.lasting}, opts)
        self.group: list[resources.ResourceGroup] = []
        if settings.own_groups:
            self.group = [resources.ResourceGroup(settings.name, **self.placed())]
        self.register_outputs({})

    def options(
        self,
        *after: pulumi.Resource,
        fixed: Sequence[str] = (),
        timeout: str | None = None,
        **more: Any,
    ) -> pulumi.ResourceOptions:
        """Return a resource's options. A change to a property in `fixed` replaces the resource."""
        limit = self.timeout if timeout is None else timeout
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=[self.terms, *self.group, *after],
            replace_on_changes=list(fixed),
            delete_before_replace=True,  # its name is fixed
            custom_timeouts=None if limit is None else pulumi.CustomTimeouts(limit, limit, limit),
            **more,
        )

    def grouped(self, *after: pulumi.Resource, **options: Any) -> dict[str, Any]:
        """Return arguments for a resource in the group; the parameters are those of `options`."""
        group = within(self.settings.group, *self.group)
        return {"resource_group_name": group, "opts": self.options(*after, **options)}

    def placed(self, *after: pulumi.Resource, **options: Any) -> dict[str, Any]:
        """Return arguments for a resource in the group that also has a location and tags."""
        placed = {"location": self.settings.location, "tags": self.tags}
        return {**self.grouped(*after, **options), **placed}

    def lock(self, scope: pulumi.Input[str]) -> None:
        """Declare a lock that stops any tool from deleting the resource with the ID `scope`."""
        authorization.ManagementLockByScope(
            self.settings.name,
            lock_name="slipway-production",
            scope=scope,
            level="CanNotDelete",
            notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
            # If protected, it could not be deleted until the parent is no longer protected.
            opts=self.options(protect=False),
        )


def within(name: str, *parents: pulumi.Resource) -> pulumi.Output[str]:
    """Return the name of what Azure deletes with `parents`, so that Pulumi recreates both."""
    # Properties that depend on a resource are replaced with it; its URN is known in previews.
    return pulumi.Output.all(*(each.urn for each in parents)).apply(lambda _: name)


def connected(  # noqa: PLR0913  # access, prerequisites and properties
    azure: AzureCluster,
    listed: pulumi.Output[str],
    target: Mapping[str, Any],
    *,
    identifier: str,
    advice: str,
    after: Sequence[pulumi.Resource],
    **facts: Any,
) -> Cluster:
    """Return the cluster, whose resources wait until it responds and admits this account.

    `listed` is the kubeconfig from Azure, the administrator's if `adminKubeconfig` is set.
    Its kubeconfig may change, but not its `identifier`. `advice` is an input of `AccessHandler`.
    `facts` are further arguments for `Cluster`.
    """
    settings = azure.settings
    if not settings.admin_kubeconfig:
        listed = listed.apply(lambda plain: logging_in(plain, settings.login, settings.tenant))
    text: pulumi.Output[str] = pulumi.Output.secret(listed)
    helpers, images = helper_images(target)
    name, opts = settings.name, pulumi.ResourceOptions(parent=azure, depends_on=after)
    inputs = {"name": name, "kubeconfig": text, "advice": advice}
    access = pulumi.CustomResource(tokens.CLUSTER_ACCESS, name, inputs, opts)
    group = f"{azure.subscription}/resourceGroups/{settings.group}/"
    provider = provider_of(name, text, group + identifier, [access, *images])
    return Cluster(provider=provider, kubeconfig=text, image_target=target, images=helpers, **facts)


def logging_in(text: str, login: Login, tenant: str | None = None) -> str:
    """Convert a kubeconfig from Azure, in the format `exec`, to the login method `login`.

    Azure's default method waits until you enter a code in a browser, which `pulumi up` can't do.
    `tenant` replaces the login's (https://azure.github.io/kubelogin/cli/convert-kubeconfig.html).

    Raises:
        pulumi.RunError: The kubeconfig contains a different method, or kubelogin can't convert it.
    """
    for user in yaml.safe_load(text)["users"]:
        if others := ", ".join(sorted(user["user"].keys() - {"exec"})):
            raise pulumi.RunError(
                f"the kubeconfig for {user['name']} contains {others}, not only kubelogin: does "
                "the cluster lack Entra, or are its local accounts enabled? To use a local "
                "account, set adminKubeconfig: true"
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
                f"can't log in to the cluster: {error}. `az aks install-cli` installs "
                "kubelogin, which is not needed with adminKubeconfig: true"
            ) from None
        return file.read_text()
