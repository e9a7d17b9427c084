"""Credentials for a registry: those that docker and podman store, or the Azure CLI's.

Only that registry's credentials are read. docker's format, for a config.json or a credential
helper, is in https://docs.docker.com/reference/cli/docker/login/; podman's also allows paths:
https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md
"""

import base64
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
"""The user name for a token from `az acr login --expose-token`:
https://learn.microsoft.com/azure/container-registry/container-registry-authentication."""
TOKEN_USER = "<token>"  # noqa: S105  # a credential helper's marker for an identity token
How = Literal["azure", "docker"]
_LIMIT = 60.0


@dataclass(frozen=True)
class Login:
    """A registry's entry in a docker config.json."""

    auth: str = field(repr=False)
    """`user:password` in base64; the password is empty if there is an identity token."""
    identity_token: str = field(default="", repr=False)

    @classmethod
    def from_credentials(cls, user: str, secret: str) -> "Login":
        """Return a user's login; if `user` is `TOKEN_USER`, `secret` is an identity token."""
        is_token = user == TOKEN_USER
        plain = f"{AZURE_USER}:" if is_token else f"{user}:{secret}"
        return cls(base64.b64encode(plain.encode()).decode(), secret if is_token else "")


def host(server: str) -> str:
    """Return a registry's host with its port, from `host/path`."""
    return server.partition("/")[0]


def config(server: str, login: Login | None) -> dict[str, Any]:
    """Return the content of a docker config.json that contains only this login, if any."""
    if login is None:
        return {"auths": {}}
    token = {"identitytoken": login.identity_token} if login.identity_token else {}
    return {"auths": {_key(server): {"auth": login.auth, **token}}}


def find_login(server: str, how: How, credentials: str | None) -> Login | None:
    """Return a registry's login, or None if the default files have none.

    If `credentials` is set or `how` is `azure`, a missing login raises `TargetError` instead.
    """
    if how == "azure":
        return _by_azure(host(server), credentials)
    if credentials is None:
        logins = (stored_login(server, file) for file in _places() if file.is_file())
        return next((login for login in logins if login is not None), None)
    file = Path(credentials).expanduser()
    if (login := stored_login(server, file)) is None:
        raise TargetError(
            f"{file} has no entry for {server}; create one with "
            f"`docker --config {file.parent} login {host(server)}`"
        )
    return login


def docker_context() -> tuple[str, Path] | None:
    """Return the name of the docker context in use, if any, and the directory of all contexts."""
    file = _docker_home() / "config.json"
    name = _content(file).get("currentContext") if file.is_file() else None
    return None if name is None else (str(name), file.with_name("contexts"))


def stored_login(server: str, file: Path, *, ask_helpers: bool = True) -> Login | None:
    """Return a registry's login from a docker config.json or its credential helper, or None.

    Raises `TargetError` if the file can't be read or is invalid, or the helper fails.
    """
    content = _content(file)
    auths = content.get("auths", {})
    for key in _keys(server):
        if auths.get(key):
            return _of_entry(auths[key], key, file)
    helper = content.get("credHelpers", {}).get(host(server)) or content.get("credsStore")
    return _of_helper(helper, _key(server)) if ask_helpers and helper else None


def _key(server: str) -> str:
    return DOCKER_HUB_KEY if host(server) in DOCKER_HUB else host(server)


def _keys(server: str) -> list[str]:
    """Return the keys under which a config.json may list a registry, most specific first."""
    name = host(server)
    if name in DOCKER_HUB:
        return [server, *sorted(DOCKER_HUB), DOCKER_HUB_KEY]
    paths = [server.rsplit("/", count)[0] for count in range(server.count("/") + 1)]
    return [*paths, f"https://{name}", f"https://{name}/v1/", f"https://{name}/v2/"]


def _places() -> Iterator[Path]:
    yield _docker_home() / "config.json"
    if file := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(file)
    if directory := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(directory, "containers", "auth.json")


def _docker_home() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _content(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise TargetError(
            f"{file} can't be read: {error.strerror}; specify a docker config.json"
        ) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        # Without the file's text, which contains passwords.
        raise TargetError(f"{file} is not a JSON map; it must be a docker config.json")
    return content


def _of_entry(entry: Mapping[str, str], key: str, file: Path) -> Login:
    if entry.get("identitytoken"):
        return Login.from_credentials(TOKEN_USER, entry["identitytoken"])
    if "username" in entry and "password" in entry:
        return Login.from_credentials(entry["username"], entry["password"])
    try:
        plain = base64.b64decode(entry["auth"], validate=True)
    except (KeyError, ValueError):
        plain = b""
    if b":" not in plain:
        raise TargetError(
            f"{file}: auths[{key!r}].auth is not base64 of `user:password`; log in again"
        )
    return Login(entry["auth"])


def _of_helper(helper: str, key: str) -> Login | None:
    """Get a login from a credential helper: https://github.com/docker/docker-credential-helpers."""
    command = (f"docker-credential-{helper}", "get")
    try:
        done = subprocess.run(
            command, input=key, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        if done.returncode != 0:
            return None  # It has no login for this registry; its message is not standardized.
        answer = json.loads(done.stdout)
        return Login.from_credentials(answer["Username"], answer["Secret"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        why = type(error).__name__
        raise TargetError(
            f"`{' '.join(command)}` failed to return a login for {key} ({why}); check that this "
            "credential helper is installed and works"
        ) from None


@lru_cache(maxsize=8)
def _by_azure(name: str, subscription: str | None) -> Login:
    """Return the Azure CLI's login for a registry, cached since its token lasts three hours."""
    # In another tenant, the registry would refuse a token of the current subscription.
    own = () if subscription is None else ("--subscription", subscription)
    command = ("az", "acr", "login", "--name", name.partition(".")[0], *own, "--expose-token")
    what = "install the Azure CLI, log in with `az login`, and make sure you have the AcrPush role"
    try:
        printed = run(*command, "--output", "json", "--only-show-errors", limit=_LIMIT)
        return Login.from_credentials(AZURE_USER, json.loads(printed)["accessToken"])
    except CommandFailed as error:
        raise TargetError(f"{error}; {what}") from None
    except (ValueError, KeyError):
        shown = " ".join(command)
        raise TargetError(f"`{shown}` did not print an accessToken; update the Azure CLI") from None
