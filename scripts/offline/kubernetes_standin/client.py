"""Requests to the API server, with its refusals as exceptions that a user can read."""

import json
import re
from typing import Any

import urllib3
import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core import kube
from core.kube import Request
from scripts.offline.kubernetes_standin.kinds import Kind, Reference
from scripts.offline.kubernetes_standin.manifest import Object

_LIMIT = (4, 60)
"""Seconds to connect, and to answer."""
_MANAGER = re.compile(r'conflict with "([^"]*)"')


class Unreachable(Exception):
    """The API server did not answer; whether it still exists is not known."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"configured Kubernetes cluster is unreachable: {problem}")


class Refusal(Exception):
    """The API server answered, and refused; the text is its own."""

    def __init__(self, error: ApiException) -> None:
        super().__init__(kube.api_message(error))
        self.status = error.status
        self._body = error.body

    @property
    def conflicts(self) -> dict[str, str]:
        """Each field in conflict, and who manages it."""
        if self.status != 409:
            return {}
        causes = json.loads(self._body or "{}").get("details", {}).get("causes") or ()
        return {
            cause["field"]: found[1]
            for cause in causes
            if (found := _MANAGER.search(cause["message"])) is not None
        }


class Client:
    """A connection to one API server, safe to share between threads.

    Each method may raise Refusal or Unreachable; the latter also where the kubeconfig is no good.
    """

    def __init__(self, kubeconfig: str) -> None:
        try:
            self._api = kube.connect(kubeconfig)
        except yaml.YAMLError:
            # The parser's message quotes the document, which has keys in it.
            raise Unreachable("the kubeconfig is no valid YAML") from None
        except (ConfigException, AttributeError) as error:
            raise Unreachable(f"the kubeconfig can't be used: {error}") from None

    def ask(self, request: Request) -> tuple[Any, list[str]]:
        """Return the document that is the answer, and the API server's warnings."""
        host = self._api.configuration.host
        try:
            answer = kube.send(self._api, request, limit=_LIMIT)
            content = answer.data
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"the API server at {host} did not answer: {error}") from None
        except ApiException as error:
            if error.status:
                raise Refusal(error) from None
            # What the client makes of a failed TLS handshake.
            raise Unreachable(
                f"the server at {host} is not the cluster's API server: {error.reason}"
            ) from None
        return json.loads(content), [*map(_warning, answer.headers.getlist("Warning"))]

    def get(self, reference: Reference) -> Object | None:
        """Return the live object, or None when it does not exist."""
        return self._unless_gone(Request("GET", reference.path))

    def apply(
        self, reference: Reference, obj: Object, manager: str, *, force: bool, dry_run: bool
    ) -> tuple[Object, list[str]]:
        """Apply `obj` on the server (server-side apply); return the live object, and warnings."""
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Warn"}
        if dry_run:
            query["dryRun"] = "All"
        return self.ask(Request("PATCH", reference.path, query, obj, apply=True))

    def delete(self, reference: Reference) -> None:
        """Start the object's deletion, after that of what it owns; succeeds when it is gone."""
        policy = {"propagationPolicy": "Foreground"}
        self._unless_gone(Request("DELETE", reference.path, policy))

    def list(self, kind: Kind, namespace: str) -> list[Object]:
        """Return the objects of `kind` in a namespace."""
        return list(self.ask(Request("GET", kind.path(namespace)))[0].get("items") or ())

    def _unless_gone(self, request: Request) -> Object | None:
        try:
            found: Object = self.ask(request)[0]
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise
        return found


def _warning(header: str) -> str:
    """Return the text in `299 - "text"` (RFC 7234, section 5.5)."""
    _, _, quoted = header.partition('"')
    return quoted.removesuffix('"').replace('\\"', '"') or header
