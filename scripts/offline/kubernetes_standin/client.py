"""Requests to the API server, with its refusals as exceptions that a user can read."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import urllib3
import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from core import kube
from scripts.offline.kubernetes_standin.errors import Refusal, Unreachable
from scripts.offline.kubernetes_standin.kinds import Kind, Reference
from scripts.offline.kubernetes_standin.manifest import Object

_CONNECT_SECONDS = 4
_ANSWER_SECONDS = 60
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Answer:
    """The document in a response, and the warnings that the API server attached to it."""

    body: Any
    warnings: tuple[str, ...]


class Client:
    """A connection to one API server, safe to share between threads.

    Every method may raise Refusal or Unreachable.

    Args:
        kubeconfig: A YAML document.

    Raises:
        Unreachable: it can't be used.
    """

    def __init__(self, kubeconfig: str) -> None:
        try:
            self._api = kube.connect(kubeconfig)
        except yaml.YAMLError:
            # The parser's message quotes the document, which has keys in it.
            raise Unreachable("the kubeconfig is no valid YAML") from None
        except (ConfigException, AttributeError) as error:
            raise Unreachable(f"the kubeconfig can't be used: {error}") from None
        self._lock = threading.Lock()

    def request(
        self,
        method: Literal["GET", "PATCH", "DELETE"],
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Send a request; a PATCH is a server-side apply."""
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = _APPLY if method == "PATCH" else "application/json"
        # The token may be renewed while the request is built.
        with self._lock:
            serialized = self._api.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
        host = self._api.configuration.host
        try:
            response: Any = self._api.call_api(
                *serialized, _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS)
            )
            content = response.read() or b""
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"the API server at {host} did not answer: {error}") from None
        except ApiException as error:
            # What the client makes of a failed TLS handshake.
            raise Unreachable(
                f"the server at {host} is not the cluster's API server: {error.reason}"
            ) from None
        if response.status >= 400:
            raise _refusal(response.status, content)
        return Answer(
            json.loads(content), tuple(map(_warning, response.headers.getlist("Warning")))
        )

    def get(self, reference: Reference) -> Object | None:
        """Return the live object, or None when it does not exist."""
        try:
            found: Object = self.request("GET", reference.path).body
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise
        return found

    def list(self, kind: Kind, namespace: str) -> list[Object]:
        """Return the objects of `kind` in a namespace."""
        return list(self.request("GET", kind.path(namespace)).body.get("items") or ())

    def apply(
        self, reference: Reference, obj: Object, manager: str, *, force: bool, dry_run: bool
    ) -> Answer:
        """Apply `obj` on the server (server-side apply) and return the live object."""
        query = {
            "fieldManager": manager,
            "force": "true" if force else "false",
            "fieldValidation": "Warn",
        }
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", reference.path, query, obj)

    def delete(self, reference: Reference) -> None:
        """Start the object's deletion, after that of what it owns; succeeds when it is gone."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        try:
            self.request("DELETE", reference.path, body=options)
        except Refusal as refusal:
            if refusal.status != 404:
                raise


def _refusal(status: int, content: bytes) -> Refusal:
    text = content.decode(errors="replace").strip() or f"HTTP status {status}"
    try:
        document = json.loads(content)
        causes = (document.get("details") or {}).get("causes") or ()
        return Refusal(status, document.get("message") or text, causes)
    except (ValueError, AttributeError):
        return Refusal(status, text)


def _warning(header: str) -> str:
    """Return the text in `299 - "text"` (RFC 7234, section 5.5)."""
    _, _, quoted = header.partition('"')
    return quoted.removesuffix('"').replace('\\"', '"') or header
