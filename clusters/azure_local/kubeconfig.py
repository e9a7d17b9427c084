"""`slipway:clusters:AzureLocalKubeconfig`: the kubeconfig that Azure lists of a cluster.

Listing it is a long-running operation: Azure answers 202, and a document with the operation's
status has the kubeconfig in the end. azure-native's functions for it take nothing but a 200.

https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/list-user-kubeconfig,
specification/hybridaks in https://github.com/Azure/azure-rest-api-specs (final-state-via), and
https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

import base64
import os
from typing import Any, ClassVar

import requests
import urllib3

from core import http
from core.context import Context
from core.handler import Change, Handler, Properties
from core.wait import NotYet, until

LIMIT_SECONDS = 600
_POLL_SECONDS = 5.0
_LONGEST_PAUSE = 60.0
_AZURE = "https://management.azure.com"
_METADATA_HOST = "ARM_METADATA_HOSTNAME"
"""Takes another cloud's addresses from there, as azure-native does."""
_API_VERSION = "2024-01-01"
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes after which azure-native repeats a request."""


class Refused(RuntimeError):
    """Azure lists no kubeconfig; the message has its reason."""


class KubeconfigHandler(Handler):
    """Lists the kubeconfig, and on each `up` again.

    The token is no part of the state; without one, as in a preview, Azure is not asked.
    """

    type: ClassVar[str] = "slipway:clusters:AzureLocalKubeconfig"
    outputs: ClassVar[tuple[str, ...]] = ("kubeconfig",)
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"kubeconfig"})
    passing_inputs: ClassVar[frozenset[str]] = frozenset({"token"})

    def diff(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> list[Change]:
        found = super().diff(resource_id, state, inputs, context)
        if found or "token" not in inputs:
            # Another instance has a kubeconfig of its own, which is not known before.
            return [Change(each.path, each.kind, replace=each.path == "instance") for each in found]
        same = listed(inputs, context) == state["kubeconfig"]
        return [] if same else [Change("kubeconfig", drift=True)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        return str(inputs["instance"]), {"kubeconfig": listed(inputs, context)}

    def read(self, resource_id: str, state: Properties, context: Context) -> Properties | None:
        return {"kubeconfig": state["kubeconfig"]}

    def update(
        self, resource_id: str, state: Properties, inputs: Properties, context: Context
    ) -> Properties:
        return {"kubeconfig": listed(inputs, context)}

    def delete(self, resource_id: str, state: Properties, context: Context) -> None:
        """Do nothing: it goes with the cluster."""


def listed(inputs: Properties, context: Context) -> str:
    """Return the first kubeconfig that Azure lists.

    Args:
        inputs: `instance`, the ID of the instance of AKS; `operation`, `listUserKubeconfig` or
            `listAdminKubeconfig`; `token`; `advice` on a refusal; perhaps `metadataHost`.
        context: Where to show what Azure does.

    Raises:
        Refused: Azure refuses, or the operation has failed.
        TimeoutError: after `LIMIT_SECONDS`.
        InterruptedError: the user pressed Ctrl-C.
    """
    operation = _Operation(inputs)
    try:
        return until(
            operation.poll,
            LIMIT_SECONDS,
            "Azure to list the kubeconfig",
            context,
            every=_POLL_SECONDS,
        )
    except (Refused, TimeoutError) as error:
        what = f"{inputs['operation']} of {inputs['instance']}"
        raise type(error)(f"{what}: {error}\nwhat to do: {inputs['advice']}") from error


class _Operation:
    """One run of the operation: where to look next, and how."""

    def __init__(self, inputs: Properties) -> None:
        self._inputs = inputs
        self._login = {"Authorization": f"Bearer {inputs['token']}"}
        self._status_url = ""

    def poll(self) -> str:
        """Start the operation, or look at it.

        Raises:
            NotYet: it is under way, or Azure is busy.
            Refused: Azure refuses, or the operation has failed.
        """
        if self._status_url:
            answer = _answer("GET", self._status_url, self._login)
        else:
            path = f"{self._inputs['instance']}/{self._inputs['operation']}"
            url = f"{_endpoint(self._inputs.get('metadataHost'))}{path}?api-version={_API_VERSION}"
            answer = _answer("POST", url, self._login)
        headers = answer.headers
        # Where both are, the first one's document has the kubeconfig (final-state-via).
        found = headers.get("Azure-AsyncOperation") or headers.get("Location")
        self._status_url = found or self._status_url
        if answer.status_code == 202:
            raise NotYet("the operation is under way", _pause(answer))
        document = _document(answer)
        status = document.get("status", "Succeeded")
        if status in {"Failed", "Canceled"}:
            raise Refused(_reason(document) or f"the operation is {status}")
        if status != "Succeeded":
            raise NotYet(f"the operation is {status}", _pause(answer))
        try:
            return base64.b64decode(document["properties"]["kubeconfigs"][0]["value"]).decode()
        except (LookupError, TypeError):
            raise Refused("the operation has succeeded, and lists no kubeconfig") from None


def _endpoint(metadata_host: str | None) -> str:
    """Return the address of Azure's resource manager, with no / at its end."""
    host = metadata_host or os.environ.get(_METADATA_HOST)
    if not host:
        return _AZURE
    base = host if "://" in host else f"https://{host}"
    url = f"{base}/metadata/endpoints?api-version=2022-09-01"
    endpoint = _document(_answer("GET", url, {})).get("resourceManager")
    if not endpoint:
        raise Refused(f"{url} names no resourceManager")
    return str(endpoint).rstrip("/")


def _answer(method: str, url: str, headers: dict[str, str]) -> requests.Response:
    if http.is_readable(url):
        raise Refused(f"{url} has no TLS, without which a token is not sent")
    try:
        answer = http.ask(method, url, headers=headers)
    except requests.exceptions.SSLError as error:
        # Waiting would not help.
        raise Refused(f"{error}; REQUESTS_CA_BUNDLE names a file with other authorities") from error
    except requests.RequestException as error:
        raise NotYet(f"it does not answer: {error}") from error
    if answer.ok:
        return answer
    reason = _reason(_document(answer)) or answer.reason
    if answer.status_code in _BUSY:
        raise NotYet(f"it is busy: {answer.status_code} {reason}", _pause(answer))
    raise Refused(f"{answer.status_code} {reason}")


def _document(answer: requests.Response) -> dict[str, Any]:
    """Return the answer's object; an empty one of any other answer."""
    try:
        document = answer.json()
    except requests.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def _reason(document: dict[str, Any]) -> str:
    """Return code and message of an error; empty without one."""
    error = document.get("error") or {}
    return ": ".join(str(error[key]) for key in ("code", "message") if error.get(key))


def _pause(answer: requests.Response) -> float | None:
    """Return the seconds that Azure asks for, and a minute at most; None where it does not."""
    seconds = urllib3.Retry().get_retry_after(answer.raw)
    return min(seconds, _LONGEST_PAUSE) if seconds else None
