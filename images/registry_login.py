"""Who one is to a registry, and how docker's config.json has that."""

import base64
from dataclasses import dataclass, field
from typing import Any

DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
DOCKER_HUB_KEY = "https://index.docker.io/v1/"
AZURE_USER = "00000000-0000-0000-0000-000000000000"
"""The user's name beside a token of `az acr login --expose-token`:
https://learn.microsoft.com/azure/container-registry/container-registry-authentication."""


@dataclass(frozen=True)
class Login:
    """A registry's entry in a docker config.json.

    Args:
        username: Who; empty with an identity token.
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


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
