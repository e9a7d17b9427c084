"""Finds out who one is to a registry. Only the one registry's login is ever looked at."""

import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Literal

from images import registry_files
from images.registry_login import AZURE_USER, Login, host
from images.targets.target import TargetError

How = Literal["azure", "docker"]
_LIMIT = 60.0


def login(server: str, how: How, credentials: str | None) -> Login | None:
    """Return who one is to a registry; None where nobody said.

    Args:
        server: Its host, with a path where it has one.
        how: `azure` asks the Azure CLI, `docker` looks into a file.
        credentials: The file; None for where docker and podman keep theirs.

    Raises:
        TargetError: the file named has no entry for it, or the Azure CLI gives none.
    """
    if how == "azure":
        return _by_azure(host(server))
    files = registry_files.usual() if credentials is None else [Path(credentials).expanduser()]
    for file in files:
        found = registry_files.stored(server, file)
        if found is not None:
            return found
    if credentials is not None:
        raise TargetError(
            f"{files[0]} has no entry for {server}; write one with "
            f"`docker --config {files[0].parent} login {host(server)}`"
        )
    return None


@lru_cache(maxsize=8)
def _by_azure(name: str) -> Login:
    """Ask once in the life of this process: the token holds for three hours."""
    command = ("az", "acr", "login", "--name", name.partition(".")[0], "--expose-token")
    shown = " ".join(command)
    what = "install the Azure CLI, log in with `az login`, and have the role AcrPush"
    try:
        done = subprocess.run(
            (*command, "--output", "json", "--only-show-errors"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"`{shown}`: {error}; {what}") from None
    if done.returncode != 0:
        raise TargetError(f"`{shown}` failed: {done.stderr.strip()}; {what}")
    try:
        return Login(AZURE_USER, json.loads(done.stdout)["accessToken"])
    except (ValueError, KeyError):
        raise TargetError(f"`{shown}` printed no accessToken; update the Azure CLI") from None
