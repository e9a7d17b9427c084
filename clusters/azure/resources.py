"""What both kinds declare: the parent of all resources, a group, a lock; and the kubeconfig."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pulumi
import yaml
from pulumi_azure_native import Provider, authorization, resources

if TYPE_CHECKING:
    from clusters.azure.settings import AzureSettings, Login

_KEPT = {
    # What `kubelogin convert-kubeconfig` keeps for each way to log in:
    # https://github.com/Azure/kubelogin/blob/main/pkg/internal/converter/convert.go
    "azurecli": (),
    "msi": (),
    # Of its modes that log in without a browser, only this one takes proof of possession, which an
    # Arc cluster may require: https://azure.github.io/kubelogin/concepts/azure-arc.html
    "spn": ("--tenant-id", "--environment", "--pop-enabled", "--pop-claims"),
    "workloadidentity": (),
}
HINT = (
    "kubelogin logs in to the cluster with your own account: install it with `az aks install-cli` "
    "(https://azure.github.io/kubelogin), then `az login`"
)


class AzureCluster(pulumi.ComponentResource):
    """The parent of all Azure resources of one cluster.

    Names are passed as text and not as outputs of the resources that have them, so that a preview
    shows them; `opts` names what has to exist before.

    Args:
        token: Its type, such as `slipway:clusters:Aks`.
        settings: Of the cluster. Their subscription pays, whatever `az login` has chosen.
        own_group: Whether the stack makes the resource group.
        metadata_host: Of your own control plane, which has all other addresses; None for Azure's.
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
        self.resource_name = settings.resource_name
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
        """The inputs for a resource's location and tags."""
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


def kubeconfig(listed: pulumi.Output[str], how: Login | None) -> pulumi.Output[str]:
    """Return a kubeconfig that Azure lists as one to use, a secret.

    Args:
        listed: YAML.
        how: In what way kubelogin logs in; None for the administrator's, which needs none.
    """
    return pulumi.Output.secret(
        listed if how is None else listed.apply(lambda text: logging_in(text, how))
    )


class KubeconfigError(ValueError):
    """Azure returned a kubeconfig that kubelogin can't log in with; the message has what to do."""


def logging_in(text: str, login: Login) -> str:
    """Return the kubeconfig with kubelogin logging in that way.

    Azure's own waits until you type a code into a browser, which `pulumi up` can't do.

    Args:
        text: YAML, as Azure lists it with the format `exec`.
        login: `azurecli`: as whoever is logged in with `az login`. `workloadidentity`, `spn` and
            `msi` are for pipelines.

    Raises:
        KubeconfigError: a user in it has anything else than kubelogin to log in with.
    """
    document: dict[str, Any] = yaml.safe_load(text)
    for user in document["users"]:
        user["user"] = {"exec": _exec(user["name"], user["user"], login)}
    return yaml.safe_dump(document, sort_keys=False)


def _exec(name: str, credentials: dict[str, Any], login: Login) -> dict[str, Any]:
    given = credentials.get("exec")
    if given is None or credentials.keys() - {"exec"}:
        found = ", ".join(sorted(credentials))
        raise KubeconfigError(
            f"the kubeconfig of {name} has {found} in it, not kubelogin alone: is the cluster "
            "without Entra, or are its local accounts on? With adminKubeconfig: true those are used"
        )
    flags = _flags(given["args"][1:])
    if "--server-id" not in flags:
        raise KubeconfigError(
            f"the kubeconfig of {name} does not say for which server a token is (--server-id): "
            "`make up` reads it anew; if it stays so, adminKubeconfig: true needs no kubelogin"
        )
    kept = [part for flag in _KEPT[login] for part in flags.get(flag, ())]
    return {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin",
        "args": ["get-token", "--login", login, *flags["--server-id"], *kept],
        "env": None,
        "installHint": HINT,
        # A question would never be answered.
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }


def _flags(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return each flag with what it stands as: with its value behind it, or alone."""
    return {
        word: (word,) if following.startswith("--") else (word, following)
        for word, following in zip(words, [*words[1:], "--"], strict=True)
        if word.startswith("--")
    }
