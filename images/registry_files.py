"""Logins as docker and podman keep them: in a config.json, or with a credential helper.

The format: https://docs.docker.com/reference/cli/docker/login/; podman's has paths, too:
https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md
"""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from images.registry_login import DOCKER_HUB, DOCKER_HUB_KEY, Login, host
from images.targets.target import TargetError

_LIMIT = 60.0
_TOKEN_USER = "<token>"  # noqa: S105  # what a credential helper says instead of a name


def usual() -> list[Path]:
    """Return the files of this person's that are there."""
    return [file for file in _places() if file.is_file()]


def context() -> tuple[str, Path] | None:
    """Return which of docker's daemons is this person's, and where that is written down.

    None for the usual one. Docker Desktop's and a rootless one are others.
    """
    home = _docker_home()
    if not (home / "config.json").is_file():
        return None
    name = _content(home / "config.json").get("currentContext")
    return None if name is None else (str(name), home / "contexts")


def stored(server: str, file: Path, *, ask_helpers: bool = True) -> Login | None:
    """Return what a docker config.json knows of a registry; None when it knows nothing.

    Args:
        server: Its host, with a path where it has one.
        file: The config.json.
        ask_helpers: Whether to ask the credential helper that the file names.

    Raises:
        TargetError: it can't be read, is none, or its credential helper fails.
    """
    content = _content(file)
    auths = content.get("auths", {})
    for key in _keys(server):
        if auths.get(key):
            return _of_entry(auths[key], key, file)
    helper = content.get("credHelpers", {}).get(host(server)) or content.get("credsStore")
    if ask_helpers and helper:
        return _of_helper(helper, DOCKER_HUB_KEY if host(server) in DOCKER_HUB else host(server))
    return None


def _keys(server: str) -> list[str]:
    """Return how a file may name a registry, the most special first."""
    name = host(server)
    if name in DOCKER_HUB:
        return [server, *sorted(DOCKER_HUB), DOCKER_HUB_KEY]
    paths = [server.rsplit("/", count)[0] for count in range(server.count("/") + 1)]
    return [*paths, f"https://{name}", f"https://{name}/v1/", f"https://{name}/v2/"]


def _places() -> Iterator[Path]:
    yield _docker_home() / "config.json"
    if os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(os.environ["REGISTRY_AUTH_FILE"])
    if os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(os.environ["XDG_RUNTIME_DIR"]) / "containers" / "auth.json"


def _docker_home() -> Path:
    said = os.environ.get("DOCKER_CONFIG")
    return Path(said) if said else Path.home() / ".docker"


def _content(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise TargetError(
            f"{file} can't be read: {error.strerror}; name a docker config.json"
        ) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        # Not its text: it holds passwords.
        raise TargetError(f"{file} is no JSON map; it has to be a docker config.json")
    return content


def _of_entry(entry: Mapping[str, str], key: str, file: Path) -> Login:
    if entry.get("identitytoken"):
        return Login("", entry["identitytoken"], is_identity_token=True)
    if "username" in entry and "password" in entry:
        return Login(entry["username"], entry["password"])
    try:
        name, colon, password = (
            base64.b64decode(entry["auth"], validate=True).decode().partition(":")
        )
    except (KeyError, binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise TargetError(
            f"{file}: auths[{key!r}].auth is not base64 of `user:password`; log in anew"
        )
    return Login(name, password)


def _of_helper(helper: str, key: str) -> Login | None:
    """Ask a credential helper: https://github.com/docker/docker-credential-helpers."""
    command = (f"docker-credential-{helper}", "get")
    try:
        done = subprocess.run(
            command, input=key, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        if done.returncode != 0:
            return None  # It keeps nothing for this registry; what it says is not standardized.
        told = json.loads(done.stdout)
        name, password = told["Username"], told["Secret"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        why = type(error).__name__
        raise TargetError(f"`{' '.join(command)}` for {key} does not answer ({why})") from None
    if name == _TOKEN_USER:
        return Login("", password, is_identity_token=True)
    return Login(name, password)
