"""The resource `slipway:clusters:AzureLocalKubeconfig`, a kubeconfig from Azure.

Listing it is a long-running operation, but azure-native's functions accept only a 200.
https://learn.microsoft.com/rest/api/hybridcontainer/provisioned-cluster-instances/list-user-kubeconfig
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
from slipway.events import json_map

LIMIT_SECONDS = 600
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP status codes after which azure-native retries a request."""


class Refused(RuntimeError):
    """Azure did not return a kubeconfig, and retrying would not help; the message says why."""


class KubeconfigHandler(Handler):
    """Gets the kubeconfig on each `up`, but not in previews, which have no token."""

    outputs: ClassVar[tuple[str, ...]] = ("kubeconfig",)
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"kubeconfig"})
    # A new instance has a different kubeconfig, which is not known in advance.
    replaced_by: ClassVar[frozenset[str]] = frozenset({"instance"})
    passing_inputs: ClassVar[frozenset[str]] = frozenset({"token"})

    def drift(self, state: Properties, inputs: Properties, context: Context) -> list[Change]:
        if "token" not in inputs:
            return []
        same = listed(inputs, context) == state["kubeconfig"]
        return [] if same else [Change("kubeconfig", drift=True)]

    def create(self, inputs: Properties, context: Context) -> tuple[str, Properties]:
        return str(inputs["instance"]), {"kubeconfig": listed(inputs, context)}


def listed(inputs: Properties, context: Context) -> str:
    """Return the first kubeconfig that Azure lists. Raises `Refused`, or the errors of `until`."""
    path = f"{inputs['instance']}/{inputs['operation']}?api-version=2024-01-01"
    login = {"Authorization": f"Bearer {inputs['token']}"}
    status_url = ""

    def poll() -> str:
        """Start the operation or query its status."""
        nonlocal status_url
        if status_url:
            answer = _answer("GET", status_url, login)
        else:
            answer = _answer("POST", f"{_endpoint(inputs.get('metadataHost'))}{path}", login)
        # If both headers are set, the first leads to the kubeconfig: see final-state-via in
        # specification/hybridaks of https://github.com/Azure/azure-rest-api-specs
        header = answer.headers.get("Azure-AsyncOperation") or answer.headers.get("Location")
        status_url = header or status_url
        if answer.status_code == 202:
            raise NotYet("the operation is in progress", _pause(answer))
        document = _document(answer)
        status = document.get("status", "Succeeded")
        if status in {"Failed", "Canceled"}:
            raise Refused(_reason(document) or f"the operation is {status}")
        if status != "Succeeded":
            raise NotYet(f"the operation is {status}", _pause(answer))
        try:
            return base64.b64decode(document["properties"]["kubeconfigs"][0]["value"]).decode()
        except (LookupError, TypeError):
            raise Refused("the operation succeeded but did not list a kubeconfig") from None

    try:
        return until(poll, LIMIT_SECONDS, "Azure to list the kubeconfig", context, every=5.0)
    except (Refused, TimeoutError) as error:
        of = f"{inputs['operation']} of {inputs['instance']}"
        raise type(error)(f"{of}: {error}\nwhat to do: {inputs['advice']}") from error


def _endpoint(metadata_host: str | None) -> str:
    """Return the URL of Azure Resource Manager, without a trailing slash."""
    # Like azure-native, read a private cloud's endpoints from the host in this variable.
    host = metadata_host or os.environ.get("ARM_METADATA_HOSTNAME")
    if not host:
        return "https://management.azure.com"
    base = host if "://" in host else f"https://{host}"
    url = f"{base}/metadata/endpoints?api-version=2022-09-01"
    endpoint = _document(_answer("GET", url, {})).get("resourceManager")
    if not endpoint:
        raise Refused(f"{url} does not list a resourceManager endpoint")
    return str(endpoint).rstrip("/")


def _answer(method: str, url: str, headers: dict[str, str]) -> requests.Response:
    if http.is_readable(url):
        raise Refused(f"{url} does not use TLS, so no token is sent to it")
    try:
        answer = http.ask(method, url, headers=headers)
    except requests.exceptions.SSLError as error:
        # Waiting would not help.
        raise Refused(f"{error}; set REQUESTS_CA_BUNDLE to the CA certificate's file") from error
    except requests.RequestException as error:
        raise NotYet(f"Azure is not responding: {error}") from error
    if answer.ok:
        return answer
    reason = _reason(_document(answer)) or answer.reason
    if answer.status_code in _BUSY:
        raise NotYet(f"Azure is busy: {answer.status_code} {reason}", _pause(answer))
    raise Refused(f"{answer.status_code} {reason}")


def _document(answer: requests.Response) -> dict[str, Any]:
    """Return the JSON object in a response, or an empty dict if it contains anything else."""
    return json_map(answer.content.decode(errors="replace"))


def _reason(document: dict[str, Any]) -> str:
    """Return an error's code and message, or an empty string if there is no error."""
    error = document.get("error") or {}
    return ": ".join(str(error[key]) for key in ("code", "message") if error.get(key))


def _pause(answer: requests.Response) -> float | None:
    """Return the seconds in a Retry-After header, at most 60, or None if there is none."""
    seconds = urllib3.Retry().get_retry_after(answer.raw)
    return min(seconds, 60.0) if seconds else None
