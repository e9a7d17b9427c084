"""Queries a registry over HTTP, by the OCI's distribution specification.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md; how one gets a token:
https://distribution.github.io/distribution/spec/auth/token/. With TLS, but for loopback.
"""

import hashlib
from dataclasses import dataclass

import requests
from requests.utils import parse_dict_header
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_exponential,
)

from core import http
from images.targets.registry_login import DOCKER_HUB, Login, host
from images.targets.target import TargetError, repository, tag

LIMIT = 60.0
"""Seconds for one request with its retries: for a busy registry, or a lost connection."""
_BUSY = frozenset({429, 500, 502, 503, 504})
"""Status codes after which a request is retried."""
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_CLIENT = "slipway"
_REFUSED = frozenset({401, 403})


@dataclass(frozen=True)
class RegistryApi:
    """One registry.

    Args:
        server: Its host, with a path where it has one.
        login: The credentials; None for anonymous requests.
        remedy: What the user does when it refuses.
    """

    server: str
    login: Login | None
    remedy: str

    @property
    def answers(self) -> bool:
        """Whether a registry responds, whatever its answer."""
        try:
            status = http.ask("GET", f"{self._base}/v2/").status_code
        except requests.RequestException:
            return False
        return status not in _BUSY

    def digest(self, name: str) -> str | None:
        """Return the digest of the image of that name, which is in this registry; None without it.

        Raises:
            TargetError: it refuses, or has not answered within `LIMIT` seconds.
        """
        path = repository(name).removeprefix(f"{host(self.server)}/")
        url = f"{self._base}/v2/{path}/manifests/{tag(name)}"
        response = self._answer("HEAD", url, path)
        if response.status_code == 404:
            return None
        digest = response.headers.get("Docker-Content-Digest")
        if digest is not None:
            return digest
        # The header may be missing, the digest is of the manifest's bytes.
        content = self._answer("GET", url, path).content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    @property
    def _base(self) -> str:
        name = "registry-1.docker.io" if host(self.server) in DOCKER_HUB else host(self.server)
        return f"{'http' if http.is_loopback(name) else 'https'}://{name}"

    def _answer(self, method: str, url: str, path: str) -> requests.Response:
        try:
            response = self._repeated(method, url, {})
            if response.status_code == 401:
                challenge = response.headers.get("WWW-Authenticate", "")
                response = self._repeated(method, url, self._authorization(challenge, path))
        except (requests.RequestException, RetryError) as error:
            cause = error.last_attempt.exception() if isinstance(error, RetryError) else error
            why = "it is busy" if cause is None else cause
            raise TargetError(
                f"{self.server} has not answered within {LIMIT:.0f} s: {why}"
            ) from None
        if response.status_code in _REFUSED:
            who = "anonymous requests" if self.login is None else "that login"
            raise TargetError(
                f"{self.server} refuses {path} to {who} ({response.status_code}); {self.remedy}"
            )
        if not response.ok and response.status_code != 404:
            raise TargetError(f"{self.server} answered {response.status_code} to {method} {url}")
        return response

    def _repeated(self, method: str, url: str, headers: dict[str, str]) -> requests.Response:
        """Ask until it is not busy and the connection holds; `RetryError` after `LIMIT` seconds."""
        repeat = Retrying(
            stop=stop_after_delay(LIMIT),
            wait=wait_exponential(multiplier=0.5, max=8),
            retry=retry_if_exception_type((requests.ConnectionError, requests.Timeout))
            | retry_if_result(lambda response: response.status_code in _BUSY),
        )
        accepted = {"Accept": ", ".join(_MANIFESTS), **headers}
        return repeat(http.ask, method, url, headers=accepted)

    def _authorization(self, challenge: str, path: str) -> dict[str, str]:
        """Return the header that a challenge requires; empty when no credentials match."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "bearer":
            return {"Authorization": f"Bearer {self._token(parse_dict_header(rest), path)}"}
        if scheme.lower() == "basic" and self.login is not None:
            return {"Authorization": f"Basic {self.login.entry()['auth']}"}
        return {}

    def _token(self, challenge: dict[str, str | None], path: str) -> str:
        realm = str(challenge.get("realm"))
        if http.is_readable(realm):
            raise TargetError(
                f"{self.server} sends logins to {realm}, where they would be readable"
            )
        scope = {"service": challenge.get("service") or "", "scope": f"repository:{path}:pull"}
        if self.login is not None and self.login.is_identity_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self.login.password}
            form = {**scope, **grant, "client_id": _CLIENT}
            response = http.ask("POST", realm, data=form)
        else:
            header = {"Authorization": f"Basic {self.login.entry()['auth']}"} if self.login else {}
            response = http.ask("GET", realm, params=scope, headers=header)
        if not response.ok:
            raise TargetError(
                f"{self.server} gives no token ({response.status_code}); {self.remedy}"
            )
        token = response.json()
        return str(token.get("token") or token["access_token"])
