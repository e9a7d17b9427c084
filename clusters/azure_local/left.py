"""What is left of an Azure Local cluster in Azure once its stack has been destroyed."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from clusters.azure_local.names import TAG, resource_group
from clusters.embedded.command import CommandFailed, run

if TYPE_CHECKING:
    from clusters.azure_local.settings import Settings
    from clusters.cluster import Remains

_LIMIT_SECONDS = 60


def remains(settings: Settings) -> Remains:
    """Return what is still there; nothing where Azure can't be asked.

    It is asked with the person's own CLI. Without that, or without a login, no count is given,
    rather than one that nobody has made. The machines go with what stands for them in Azure.
    """
    try:
        if settings.resource_group is None:
            return {"resource groups": _group(settings)}
        return {"Azure resources": _tagged(settings)}
    except CommandFailed:
        return {}


def _group(settings: Settings) -> list[str]:
    name = resource_group(settings)
    if not json.loads(_az(settings, "group", "exists", "--name", name)):
        return []
    command = f"az group delete --name {name} --subscription {settings.subscription}"
    return [f"resource group {name}: {command}"]


def _tagged(settings: Settings) -> list[str]:
    """Return what bears the cluster's name in a resource group that is somebody else's."""
    group = resource_group(settings)
    listed = json.loads(_az(settings, "resource", "list", "--resource-group", group))
    return [
        f"{each['type']} {each['name']}: az resource delete --ids {each['id']}"
        for each in listed
        if (each.get("tags") or {}).get(TAG) == settings.name
    ]


def _az(settings: Settings, *words: str) -> str:
    program = shutil.which("az")
    if program is None:
        raise CommandFailed("`az` is not installed")
    subscription = ("--subscription", settings.subscription)
    return run(program, *words, *subscription, "--output", "json", limit=_LIMIT_SECONDS)
