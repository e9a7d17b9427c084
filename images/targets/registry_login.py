"""Credentials for a registry: those that docker and podman store, or those of the Azure CLI.

Only the one registry's login is ever read. docker's format, in a config.json or with a credential
helper: https://docs.docker.com/reference/cli/docker/login/; podman's has paths, too:
https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md
"""

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from core.process import CommandFailed, run
from images.targets.target import TargetError

DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
DOCKER_HUB_KEY = "https://index.docker.io/v1/"
AZURE_USER = "00000000-0000-0000-0000-000000000000"
"""The user's name beside a token of `az acr login --expose-token`:
https://learn.microsoft.com/azure/container-registry/container-registry-authentication."""
How = Literal["azure", "docker"]
_LIMIT = 60.0
_TOKEN_USER = "<token>"  # noqa: S105  # how a credential helper marks a token


@dataclass(frozen=True)
class Login:
    """A registry's entry in a docker config.json.

    Args:
        username: Empty with an identity token.
        password: Or an identity token.
        is_identity_token: Which of them it is.
    """

    username: str
    password: str = field(repr=False)
    is_identity_token: bool = False

    def entry(self) -> dict[str, str]:
        """Return it as docker's file has it."""
        if self.is_identity_token:
            return {"auth": _encoded(f"{AZURE_USER}:"), "identitytoken": self.password}
        return {"auth": _encoded(f"{self.username}:{self.password}")}


def host(server: str) -> str:
    """Return a registry's host, with its port, out of `host/path`."""
    return server.partition("/")[0]


def config(server: str, login: Login | None) -> dict[str, Any]:
    """Return a docker config.json with this one entry; without a login it has none."""
    key = DOCKER_HUB_KEY if host(server) in DOCKER_HUB else host(server)
    return {"auths": {} if login is None else {key: login.entry()}}


def find_login(server: str, how: How, credentials: str | None) -> Login | None:
    """Return the login of a registry; None without one.

    Args:
        server: Its host, with a path where it has one.
        how: `azure` asks the Azure CLI, `docker` looks into a file.
        credentials: The file; None for where docker and podman keep theirs.

    Raises:
        TargetError: the file named has no entry for it, or the Azure CLI gives none.
    """
    if how == "azure":
        return _by_azure(host(server))
    if credentials is None:
        known = (stored_login(server, file) for file in _places() if file.is_file())
        return next((login for login in known if login is not None), None)
    file = Path(credentials).expanduser()
    login = stored_login(server, file)
    if login is None:
        raise TargetError(
            f"{file} has no entry for {server}; write one with "
            f"`docker --config {file.parent} login {host(server)}`"
        )
    return login


def docker_context() -> tuple[str, Path] | None:
    """Return the user's docker context and the directory that describes it; None for the default.

    Docker Desktop's daemon and a rootless one have contexts.
    """
    home = _docker_home()
    if not (home / "config.json").is_file():
        return None
    name = _content(home / "config.json").get("currentContext")
    return None if name is None else (str(name), home / "contexts")


def stored_login(server: str, file: Path, *, ask_helpers: bool = True) -> Login | None:
    """Return the login that a docker config.json has for a registry; None without one.

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
    given = os.environ.get("DOCKER_CONFIG")
    return Path(given) if given else Path.home() / ".docker"


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
            f"{file}: auths[{key!r}].auth is not base64 of `user:password`; log in again"
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
            return None  # It keeps nothing for this registry; its message is not standardized.
        answer = json.loads(done.stdout)
        name, password = answer["Username"], answer["Secret"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        why = type(error).__name__
        raise TargetError(f"`{' '.join(command)}` for {key} gives no login ({why})") from None
    if name == _TOKEN_USER:
        return Login("", password, is_identity_token=True)
    return Login(name, password)


@lru_cache(maxsize=8)
def _by_azure(name: str) -> Login:
    """Ask once in the life of this process: the token is valid for three hours."""
    command = ("az", "acr", "login", "--name", name.partition(".")[0], "--expose-token")
    what = "install the Azure CLI, log in with `az login`, and have the role AcrPush"
    try:
        printed = run(*command, "--output", "json", "--only-show-errors", limit=_LIMIT)
    except CommandFailed as error:
        raise TargetError(f"{error}; {what}") from None
    try:
        return Login(AZURE_USER, json.loads(printed)["accessToken"])
    except (ValueError, KeyError):
        shown = " ".join(command)
        raise TargetError(f"`{shown}` printed no accessToken; update the Azure CLI") from None


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
