"""Requests to the API server, and its refusals as exceptions that a person can read."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

_CONNECT_SECONDS = 4
_ANSWER_SECONDS = 60
_APPLY = "application/apply-patch+yaml"


class Unreachable(Exception):
    """The API server could not be asked; whether it exists is not known."""


@dataclass(frozen=True)
class Cause:
    """One field that the API server named in a refusal."""

    reason: str
    message: str
    field: str


class Refusal(Exception):
    """The API server answered, and said no.

    Args:
        status: The HTTP status.
        reason: The machine's word for it, such as `NotFound`, `Conflict`, `Invalid`.
        message: The server's own text.
    """

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes


@dataclass(frozen=True)
class Answer:
    """What came back: the document, and the warnings that the API server attached to it."""

    body: Any
    warnings: tuple[str, ...]


class Transport:
    """A connection to one API server, safe to share between threads."""

    def __init__(self, configuration: Configuration) -> None:
        self._client = ApiClient(configuration)
        self._lock = threading.Lock()
        self.host = str(configuration.host)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """Send a request; a PATCH is a server-side apply.

        Raises:
            Refusal: the API server refused.
            Unreachable: it did not answer.
        """
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = _APPLY if method == "PATCH" else "application/json"
        # The token may be renewed while the request is put together.
        with self._lock:
            serialized = self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
        try:
            response: Any = self._client.call_api(
                *serialized, _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS)
            )
            content = response.read() or b""
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"the API server at {self.host} did not answer: {error}") from None
        except ApiException as error:
            # What the client makes of a failed TLS handshake: whoever is there is not the cluster.
            raise Unreachable(
                f"at {self.host} somebody else than the API server answers: {error.reason}"
            ) from None
        if response.status >= 400:
            raise _refusal(response.status, content)
        is_json = "json" in (response.headers.get("Content-Type") or "")
        return Answer(
            json.loads(content) if is_json else content.decode(errors="replace"),
            tuple(_warning(text) for text in response.headers.getlist("Warning")),
        )


def _refusal(status: int, content: bytes) -> Refusal:
    try:
        document = json.loads(content)
        details = document.get("details") or {}
        return Refusal(
            status,
            document.get("reason") or "",
            document.get("message") or content.decode(errors="replace"),
            tuple(
                Cause(item.get("reason", ""), item.get("message", ""), item.get("field", ""))
                for item in details.get("causes") or ()
            ),
        )
    except (ValueError, AttributeError):
        text = content.decode(errors="replace").strip() or f"HTTP status {status}"
        return Refusal(status, "", text)


def _warning(header: str) -> str:
    """Return the text in `299 - "text"` (RFC 7234, section 5.5)."""
    _, _, quoted = header.partition('"')
    return quoted.removesuffix('"').replace('\\"', '"') or header
