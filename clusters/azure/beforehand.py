"""What has to be in the settings, and installed, before anything is made on Azure.

The stacks that come with Slipway hold placeholders, so that a preview needs no account.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pulumi
from pydantic.alias_generators import to_camel

from core import summary
from core.problem import Path, Problem, located
from core.text import quote

if TYPE_CHECKING:
    from clusters.azure.settings import Settings as Aks
    from clusters.azure_local.settings import Settings as AzureLocal

_KEY = "slipway:cluster"
_NOBODYS = ("00000000-0000-0000-0000-000000000000", "01234567-89ab-cdef-0123-456789abcdef")
"""The IDs of the stacks, and of the message about a wrong one."""
_DOCUMENTATION = tuple(map(IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
"""Nobody comes from these: https://www.rfc-editor.org/rfc/rfc5737"""
_EXAMPLE = re.compile(r"(^|[@.])(example\.(com|internal|net|org)|example)(:[0-9]+)?(/|$)")
"""Nobody's: https://www.rfc-editor.org/rfc/rfc2606"""
_SHORTEST_KEY = 360
"""Characters of an RSA key of 2048 bits, the least that Azure takes, are a few more.

https://learn.microsoft.com/azure/virtual-machines/linux/mac-create-ssh-keys
"""
_IDS: Mapping[str, str] = {
    "subscription": "what `az account show --query id` prints",
    "users": "what `az ad signed-in-user show --query id` prints",
    "groups": "what `az ad group show --group NAME --query id` prints",
    "adminGroups": "what `az ad group show --group NAME --query id` prints",
    "servicePrincipals": "what `az ad sp show --id APP --query id` prints",
    "tenant": "what `az account show --query tenantId` prints",
    "subnet": "the ID of a subnet of yours",
    "customLocation": "what `az customlocation show --name NAME --resource-group GROUP "
    "--query id` prints",
    "logicalNetwork": "what `az stack-hci-vm network lnet show --name NAME --resource-group "
    "GROUP --query id` prints",
}
_TOOLS: Mapping[str, str] = {
    "az": "install Azure's CLI, https://learn.microsoft.com/cli/azure/install-azure-cli, and log "
    "in: az login",
    "kubelogin": "install it: az aks install-cli, or https://azure.github.io/kubelogin",
}


def check(settings: Aks | AzureLocal, *, pushes: bool = False) -> None:
    """Warn in a preview of everything that an update refuses, and refuse it in an update.

    Args:
        settings: Of a cluster that is about to be declared.
        pushes: Whether images go to a registry that is logged in to with Azure's CLI.

    Raises:
        pulumi.RunError: with all of it.
    """
    problems = [*placeholders(settings), *missing(settings, pushes=pushes)]
    lines = "".join(f"\n  {each}" for each in problems)
    if not problems:
        return
    if pulumi.runtime.is_dry_run():
        text = f"`up` will refuse this, which a preview can do without:{lines}"
        summary.tell(text, pulumi.log.warn)
        return
    raise pulumi.RunError(
        f"nothing was changed, because this is missing for a cluster on Azure:{lines}\n"
        f"Correct Pulumi.{pulumi.get_stack()}.yaml, install what is missing, and run the command "
        "again."
    )


def placeholders(settings: Aks | AzureLocal) -> list[Problem]:
    """Return each value that is nobody's, with what to put there."""
    return [
        Problem(located(_KEY, path), f"{quote(text)} is a placeholder; put in {own}")
        for path, text in _texts(settings)
        if (own := _instead(path, text))
    ]


def missing(settings: Aks | AzureLocal, *, pushes: bool) -> list[Problem]:
    """Return the programs that are needed and that are not there, with how to get them."""
    logs_in = not settings.admin_kubeconfig
    needed = {
        "az": pushes or (logs_in and settings.login == "azurecli"),
        "kubelogin": logs_in,
    }
    return [
        Problem(name, f"is needed and not on PATH; {_TOOLS[name]}")
        for name, wanted in needed.items()
        if wanted and shutil.which(name) is None
    ]


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text in the settings, with the path that it has in the configuration."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _texts(each, (*path, index))
    elif is_dataclass(value):
        for each in fields(value):
            yield from _texts(getattr(value, each.name), (*path, to_camel(each.name)))


def _instead(path: Path, text: str) -> str:
    """Return what belongs where a placeholder is; empty for what is none."""
    (*_, key) = (part for part in path if isinstance(part, str))
    if key in _IDS and any(each in text.lower() for each in _NOBODYS):
        return _IDS[key]
    if key == "authorizedRanges":
        network = IPv4Network(text)
        if any(network.subnet_of(each) for each in _DOCUMENTATION):
            return "the public addresses that you come from"
    if key == "sshKey" and len(text.split()[1]) < _SHORTEST_KEY:
        return "the line of your own public key, such as ~/.ssh/id_rsa.pub has it"
    if key == "emails" and _EXAMPLE.search(text):
        return "the address of whoever is to be told"
    if path == ("registry", "server") and _EXAMPLE.search(text.partition("/")[0]):
        return "the registry that images are pushed to, and that the nodes pull from"
    return ""
