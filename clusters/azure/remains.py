"""What is left of an AKS stack on Azure once it has been destroyed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from clusters.azure import names
from core.process import CommandFailed, run

if TYPE_CHECKING:
    from clusters.azure.settings import Settings
    from clusters.cluster import Remains

_LIMIT_SECONDS = 60


def remains(settings: Settings) -> Remains:
    """Return the resource groups that are still there.

    Azure is asked with the person's own CLI. Without that, or without a login, that it was not
    asked stands in the kind's name, rather than a count that nobody has made.
    """
    groups = [names.resource_group(settings), names.node_group(settings)]
    try:
        left = [group for group in groups if exists(settings.subscription, group)]
    except CommandFailed as error:
        return unasked("resource groups", error)
    return {"resource groups": [removal(settings.subscription, group) for group in left]}


def exists(subscription: str, group: str) -> bool:
    """Return whether a resource group is there. Raises `CommandFailed`."""
    return az(subscription, "group", "exists", "--name", group).strip() == "true"


def removal(subscription: str, group: str) -> str:
    """Return a resource group that is left, with the command that removes it."""
    command = f"az group delete --name {group} --subscription {subscription}"
    return f"resource group {group}: {command}"


def az(subscription: str, *words: str) -> str:
    """Run Azure's CLI and return what it prints.

    Raises:
        CommandFailed: it is not there, nobody is logged in, or it refuses.
    """
    program = shutil.which("az")
    if program is None:
        raise CommandFailed("`az` is not installed")
    whose = ("--subscription", subscription)
    return run(program, *words, *whose, "--output", "json", limit=_LIMIT_SECONDS)


def unasked(kind: str, error: CommandFailed) -> Remains:
    """Return that Azure could not be asked: what Pulumi knew of is gone all the same."""
    why = " ".join(str(error).split())
    return {f"{kind} known to be left (Azure was not asked: {why})": []}
