"""`slipway:clusters:AzureLocalKubeconfig`: the kubeconfig that Azure lists of a cluster.

Listing it is a long-running operation, while azure-native's functions take nothing but a 200.
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
"""Status codes after which azure-native repeats a request."""


class Refused(RuntimeError):
    """Azure lists no kubeconfig; the message has its reason."""


class KubeconfigHandler(Handler):
    """Lists the kubeconfig, and on each `up` again; without a token, as in a preview, not."""

    outputs: ClassVar[tuple[str, ...]] = ("kubeconfig",)
    secret_outputs: ClassVar[frozenset[str]] = frozenset({"kubeconfig"})
    # Another instance has a kubeconfig of its own, which is not known before.
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
    """Return the first kubeconfig that Azure lists; raises `Refused`, and what `until` raises."""
    path = f"{inputs['instance']}/{inputs['operation']}?api-version=2024-01-01"
    login = {"Authorization": f"Bearer {inputs['token']}"}
    status_url = ""

    def poll() -> str:
        """Start the operation, or look at it."""
        nonlocal status_url
        if status_url:
            answer = _answer("GET", status_url, login)
        else:
            answer = _answer("POST", f"{_endpoint(inputs.get('metadataHost'))}{path}", login)
        # Where both are, the first one's document has the kubeconfig: final-state-via in
        # specification/hybridaks of https://github.com/Azure/azure-rest-api-specs
        found = answer.headers.get("Azure-AsyncOperation") or answer.headers.get("Location")
        status_url = found or status_url
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

    try:
        return until(poll, LIMIT_SECONDS, "Azure to list the kubeconfig", context, every=5.0)
    except (Refused, TimeoutError) as error:
        of = f"{inputs['operation']} of {inputs['instance']}"
        raise type(error)(f"{of}: {error}\nwhat to do: {inputs['advice']}") from error


def _endpoint(metadata_host: str | None) -> str:
    """Return the address of Azure's resource manager, with no / at its end."""
    # As azure-native does, take another cloud's addresses from the variable's host.
    host = metadata_host or os.environ.get("ARM_METADATA_HOSTNAME")
    if not host:
        return "https://management.azure.com"
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
    return json_map(answer.content.decode(errors="replace"))


def _reason(document: dict[str, Any]) -> str:
    """Return code and message of an error; empty without one."""
    error = document.get("error") or {}
    return ": ".join(str(error[key]) for key in ("code", "message") if error.get(key))


def _pause(answer: requests.Response) -> float | None:
    """Return the seconds that Azure asks for, and a minute at most; None where it does not."""
    seconds = urllib3.Retry().get_retry_after(answer.raw)
    return min(seconds, 60.0) if seconds else None
