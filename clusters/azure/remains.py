"""What is left of an AKS stack on Azure once it has been destroyed."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from clusters.azure import names

if TYPE_CHECKING:
    from clusters.azure.settings import Settings
    from clusters.cluster import Remains

_LIMIT_SECONDS = 60


def remains(settings: Settings) -> Remains:
    """Return the resource groups that are still there; nothing where Azure can't be asked.

    It is asked with the person's own CLI. Without that, or without a login, no count of groups is
    given, rather than one that nobody has made.
    """
    found = []
    for group in (names.resource_group(settings), names.node_group(settings)):
        is_there = _exists(settings.subscription, group)
        if is_there is None:
            return {}
        if is_there:
            found.append(
                f"resource group {group}: az group delete --name {group} "
                f"--subscription {settings.subscription}"
            )
    return {"resource groups": found}


def _exists(subscription: str, group: str) -> bool | None:
    """Return whether a resource group is there; None when that can't be told."""
    program = shutil.which("az")
    if program is None:
        return None
    command = [program, "group", "exists", "--name", group, "--subscription", subscription]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() == "true" if done.returncode == 0 else None
