"""What both kinds declare: the parent of all resources, a group, a lock; and the kubeconfig."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pulumi
import pulumi_kubernetes
import yaml
from pulumi_azure_native import Provider, authorization, resources

from clusters.azure.settings import AzureSettings, Login
from clusters.cluster import Cluster
from core import tokens
from core.process import CommandFailed, run
from images.resource import helper_images


class AzureCluster(pulumi.ComponentResource):
    """The parent of all Azure resources of one cluster, with what they take of its settings.

    Names are passed as text and not as outputs of the resources that have them, so that a preview
    shows them; each resource depends on `group`, and on what else has to exist before. `timeout`
    is that of all that has none of its own; Pulumi's unless set.
    """

    def __init__(self, token: str, settings: AzureSettings, timeout: str | None = None) -> None:
        self.cluster_name = settings.name
        self.resource_name = settings.resource_name
        self.group_name = settings.group
        self.subscription = f"/subscriptions/{settings.subscription}"
        self.tags = {"managed-by": "slipway", "slipway-cluster": settings.name, **settings.tags}
        self.location = settings.location
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
            self.group = [resources.ResourceGroup(settings.name, **self.placed())]
        self.register_outputs({})

    def options(
        self,
        *after: pulumi.Resource,
        fixed: Sequence[str] = (),
        timeout: str | None = None,
        **more: Any,
    ) -> pulumi.ResourceOptions:
        """Return the options of a resource that another value of a `fixed` property replaces."""
        limit = self.timeout if timeout is None else timeout
        return pulumi.ResourceOptions(
            parent=self,
            depends_on=[*self.group, *after],
            replace_on_changes=list(fixed),
            delete_before_replace=True if fixed else None,  # its name is fixed
            custom_timeouts=None if limit is None else pulumi.CustomTimeouts(limit, limit, limit),
            **more,
        )

    def grouped(self, *after: pulumi.Resource, **options: Any) -> dict[str, Any]:
        """Return what each resource in the group takes; the arguments are those of `options`."""
        return {"resource_group_name": self.group_name, "opts": self.options(*after, **options)}

    def placed(self, *after: pulumi.Resource, **options: Any) -> dict[str, Any]:
        """Return the same of a resource that has a place and tags besides."""
        return {**self.grouped(*after, **options), "location": self.location, "tags": self.tags}

    def lock(self, scope: pulumi.Input[str]) -> None:
        """Declare that what has that ID can't be deleted, by whatever tool, Pulumi or another."""
        authorization.ManagementLockByScope(
            self.cluster_name,
            lock_name="slipway-production",
            scope=scope,
            level="CanNotDelete",
            notes="A production stack of Slipway: set production: false and run `pulumi up` first.",
            # Its parent's protection would refuse to remove it before the parent's own ends.
            opts=self.options(protect=False),
        )


def connected(  # noqa: PLR0913  # how it is reached, what it needs, and what it is
    azure: AzureCluster,
    settings: AzureSettings,
    listed: pulumi.Output[str],
    target: Mapping[str, Any],
    *,
    identifier: str,
    advice: str,
    after: Sequence[pulumi.Resource],
    **facts: Any,
) -> Cluster:
    """Return the cluster, with these `facts`, once it answers and lets this account in.

    `listed` is the kubeconfig that Azure lists: the administrator's with `adminKubeconfig`. The
    `identifier` is the cluster's whatever its kubeconfig is; `advice` is for `AccessHandler`.
    """
    text = listed
    if not settings.admin_kubeconfig:
        text = listed.apply(lambda found: logging_in(found, settings.login, settings.tenant))
    text = pulumi.Output.secret(text)
    helpers, images = helper_images(target)
    access = pulumi.CustomResource(
        tokens.CLUSTER_ACCESS,
        azure.cluster_name,
        {"name": azure.cluster_name, "kubeconfig": text, "advice": advice, **settings.lasting},
        pulumi.ResourceOptions(parent=azure, depends_on=after),
    )
    provider = pulumi_kubernetes.Provider(
        azure.cluster_name,
        kubeconfig=text,
        # The kubeconfig may change, and this is still the same cluster.
        cluster_identifier=f"{azure.subscription}/resourceGroups/{azure.group_name}/{identifier}",
        opts=pulumi.ResourceOptions(depends_on=[access, *images]),
    )
    return Cluster(provider=provider, kubeconfig=text, image_target=target, images=helpers, **facts)


def logging_in(text: str, login: Login, tenant: str | None = None) -> str:
    """Return a kubeconfig, as Azure lists it with the format `exec`, with this way to log in.

    Azure's own waits until you type a code into a browser, which `pulumi up` can't do. `tenant`
    replaces the login's (https://azure.github.io/kubelogin/cli/convert-kubeconfig.html).

    Raises:
        pulumi.RunError: a user in it has another way to log in, or kubelogin can't convert it.
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
