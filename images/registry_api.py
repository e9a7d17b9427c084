"""What a registry has, asked by HTTP as the OCI's distribution specification says.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md; how one gets a token:
https://distribution.github.io/distribution/spec/auth/token/
"""

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests
from requests.utils import parse_dict_header
from tenacity import RetryError

from images.registry_http import BUSY, ask, ask_patiently, is_loopback
from images.registry_login import DOCKER_HUB, Login, host
from images.targets.names import repository, tag
from images.targets.target import TargetError

LIMIT = 60.0
"""Seconds for one question, with what it is asked again for: a busy registry, a lost connection."""
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
        login: Who asks; None for nobody.
        remedy: What to do when it refuses.
    """

    server: str
    login: Login | None
    remedy: str

    @property
    def answers(self) -> bool:
        """Whether there is a registry, whatever it says."""
        try:
            status = ask("GET", f"{self._base}/v2/").status_code
        except requests.RequestException:
            return False
        return status not in BUSY

    def digest(self, name: str) -> str | None:
        """Return the digest of the image of that name, which is in this registry; None without it.

        Raises:
            TargetError: it refuses, or has not answered within `LIMIT` seconds.
        """
        path = repository(name).removeprefix(f"{host(self.server)}/")
        url = f"{self._base}/v2/{path}/manifests/{tag(name)}"
        response = self._asked("HEAD", url, path)
        if response.status_code == 404:
            return None
        told = response.headers.get("Docker-Content-Digest")
        if told is not None:
            return told
        # The header may be missing, the digest is of the manifest's bytes.
        content = self._asked("GET", url, path).content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    @property
    def _base(self) -> str:
        name = "registry-1.docker.io" if host(self.server) in DOCKER_HUB else host(self.server)
        return f"{'http' if is_loopback(name) else 'https'}://{name}"

    def _asked(self, method: str, url: str, path: str) -> requests.Response:
        try:
            response = self._patiently(method, url, {})
            if response.status_code == 401:
                told = response.headers.get("WWW-Authenticate", "")
                response = self._patiently(method, url, self._authorization(told, path))
        except (requests.RequestException, RetryError) as error:
            cause = error.last_attempt.exception() if isinstance(error, RetryError) else error
            seen = "it is busy" if cause is None else cause
            raise TargetError(
                f"{self.server} has not answered within {LIMIT:.0f} s: {seen}"
            ) from None
        if response.status_code in _REFUSED:
            who = "nobody in particular" if self.login is None else "that login"
            raise TargetError(
                f"{self.server} refuses {path} to {who} ({response.status_code}); {self.remedy}"
            )
        if not response.ok and response.status_code != 404:
            raise TargetError(f"{self.server} answered {response.status_code} to {method} {url}")
        return response

    def _patiently(self, method: str, url: str, headers: dict[str, str]) -> requests.Response:
        accepted = {"Accept": ", ".join(_MANIFESTS), **headers}
        return ask_patiently(method, url, LIMIT, headers=accepted)

    def _authorization(self, challenge: str, path: str) -> dict[str, str]:
        """Return the header that a challenge asks for; none when nothing is known that fits."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "bearer":
            return {"Authorization": f"Bearer {self._token(parse_dict_header(rest), path)}"}
        if scheme.lower() == "basic" and self.login is not None:
            return {"Authorization": f"Basic {self.login.entry()['auth']}"}
        return {}

    def _token(self, asked: dict[str, str | None], path: str) -> str:
        realm = str(asked.get("realm"))
        parts = urlsplit(realm)
        if parts.scheme != "https" and not is_loopback(parts.netloc):
            raise TargetError(
                f"{self.server} sends logins to {realm}, where they would be readable"
            )
        scope = {"service": asked.get("service") or "", "scope": f"repository:{path}:pull"}
        if self.login is not None and self.login.is_identity_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self.login.password}
            form = {**scope, **grant, "client_id": _CLIENT}
            response = ask("POST", realm, data=form)
        else:
            header = {"Authorization": f"Basic {self.login.entry()['auth']}"} if self.login else {}
            response = ask("GET", realm, params=scope, headers=header)
        if not response.ok:
            raise TargetError(
                f"{self.server} gives no token ({response.status_code}); {self.remedy}"
            )
        told = response.json()
        return str(told.get("token") or told["access_token"])
