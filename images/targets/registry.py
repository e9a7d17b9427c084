"""A registry that the cluster's nodes pull from; images are pushed to it and never removed.

Images with the same content have the same name, so other stacks and users may be running them. A
registry that belongs to a stack is removed with it. Queries use TLS, except on loopback, and follow
https://github.com/opencontainers/distribution-spec/blob/main/spec.md, with a token as in
https://distribution.github.io/distribution/spec/auth/token/.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import requests
from requests.utils import parse_dict_header
from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_delay
from tenacity.wait import wait_exponential

from core import files, http
from core.context import Context
from images.build.engines import answer
from images.build.runner import PUSH_LIMIT, BuildFailed
from images.build.spec import workplace
from images.targets.registry_login import (
    DOCKER_HUB,
    How,
    Login,
    config,
    docker_context,
    find_login,
    host,
)
from images.targets.target import Target, TargetError, repository, within

LIMIT = 60.0
"""Time limit for one query including its retries, in seconds."""
_BUSY = frozenset({429, 500, 502, 503, 504})
"""Status codes after which a query is retried."""
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True)
class Registry(Target):
    """A registry, and the source of the credentials for it."""

    server: str
    """The registry's host, with an optional path: `example.azurecr.io/team`."""
    login: How = "docker"
    """The source of credentials: `azure` for the Azure CLI, `docker` for a docker config.json."""
    credentials: str | None = None
    """A docker config.json's path, or with `azure` a subscription's ID; None for the usual ones."""

    def name(self, reference: str) -> str:
        return within(self.server, reference)

    @property
    def is_up(self) -> bool:
        """True if the registry responds, with any status except those in `_BUSY`."""
        try:
            return http.ask("GET", f"{self._base}/v2/").status_code not in _BUSY
        except requests.RequestException:
            return False

    def digest(self, name: str) -> str | None:
        image = repository(name)
        path, reference = image.removeprefix(f"{host(self.server)}/"), name[len(image) + 1 :]
        url = f"{self._base}/v2/{path}/manifests/{reference}"
        response = self._answer("HEAD", url, path)
        if response.status_code == 404:
            return None
        if (digest := response.headers.get("Docker-Content-Digest")) is not None:
            return digest
        # Without the header, compute the digest from the manifest's bytes.
        content = self._answer("GET", url, path).content
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    def load(self, archive: Path, reference: str, reporter: Context) -> None:
        name, plain = self.name(reference), http.is_loopback(host(self.server))
        with workplace("push", reporter) as (engine, runner, work):
            is_here = answer(*engine.digest(reference))
            try:
                if not is_here:
                    runner.run(f"reading {archive.name}", engine.load(archive))
                for command in engine.push(reference, name, self._config(work), plain=plain):
                    runner.run(f"pushing {name}", command, PUSH_LIMIT)
            except BuildFailed as error:
                raise TargetError(f"{name} can't be pushed; {self._remedy}\n{error}") from None
            if not is_here:
                answer(*engine.remove(reference))

    def _config(self, work: Path) -> Path:
        """Write a docker config.json to `work`, with only this registry's credentials."""
        content = config(self.server, self._login)
        file = work / "login" / "config.json"
        file.parent.mkdir(mode=0o700)
        if (daemon := docker_context()) is not None:
            # Without its context, docker would use a different daemon.
            content["currentContext"], contexts = daemon
            (file.parent / "contexts").symlink_to(contexts)
        files.write(file, json.dumps(content), mode=0o600)
        return file

    @cached_property
    def _login(self) -> Login | None:
        return find_login(self.server, self.login, self.credentials)

    @property
    def _remedy(self) -> str:
        if self.login == "azure":
            return "log in with `az login` as a user with the AcrPush role in this registry"
        where = "" if self.credentials is None else f" --config {Path(self.credentials).parent}"
        return f"log in with `docker{where} login {host(self.server)}` as a user who can push"

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
            problem = "it is busy" if response.status_code in _BUSY else None
        except requests.RequestException as error:
            problem = str(error)
        if problem is not None:
            raise TargetError(f"{self.server} did not respond within {LIMIT:.0f} s: {problem}")
        if response.status_code in {401, 403}:
            who = "anonymous requests" if self._login is None else "your credentials"
            raise TargetError(
                f"{self.server} denies {who} access to {path} ({response.status_code}); "
                f"{self._remedy}"
            )
        if not response.ok and response.status_code != 404:
            raise TargetError(f"{self.server} returned {response.status_code} for {method} {url}")
        return response

    def _repeated(self, method: str, url: str, headers: dict[str, str]) -> requests.Response:
        """Send a request; retry while the registry is busy or unreachable, for up to `LIMIT` s."""
        repeat = Retrying(
            stop=stop_after_delay(LIMIT),
            wait=wait_exponential(multiplier=0.5, max=8),
            retry=retry_if_exception_type((requests.ConnectionError, requests.Timeout))
            | retry_if_result(lambda response: response.status_code in _BUSY),
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        return repeat(http.ask, method, url, headers={"Accept": ", ".join(_MANIFESTS), **headers})

    def _authorization(self, challenge: str, path: str) -> dict[str, str]:
        """Return the header that a challenge requires, or an empty map if no credentials match."""
        scheme, _, rest = challenge.partition(" ")
        basic = {} if self._login is None else {"Authorization": f"Basic {self._login.auth}"}
        if scheme.lower() != "bearer":
            return basic if scheme.lower() == "basic" else {}
        service = parse_dict_header(rest)
        realm = str(service.get("realm"))
        if http.is_readable(realm):
            raise TargetError(
                f"{self.server} requires sending credentials to {realm}, without TLS, where others "
                "could read them; use a registry whose token service has an https URL"
            )
        scope = {"service": service.get("service") or "", "scope": f"repository:{path}:pull"}
        if self._login is not None and self._login.identity_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self._login.identity_token}
            response = http.ask("POST", realm, data={**scope, **grant, "client_id": "slipway"})
        else:
            response = http.ask("GET", realm, params=scope, headers=basic)
        if not response.ok:
            raise TargetError(
                f"{self.server} did not issue a token ({response.status_code}); {self._remedy}"
            )
        token = response.json()
        return {"Authorization": f"Bearer {token.get('token') or token['access_token']}"}
