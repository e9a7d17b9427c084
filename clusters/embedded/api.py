"""Asks the API server, from the host with a certificate."""

import ssl
from collections.abc import Callable

import urllib3.exceptions
from kubernetes import client

from clusters.embedded.layout import Layout
from core import kube
from core.manifests import condition

LIMIT = (2, 10)
"""Seconds to connect, and to answer."""

# The errors while the API server does not run, or not yet.
UNREACHABLE = (urllib3.exceptions.HTTPError, client.ApiException, ssl.SSLError, OSError)


def connect(layout: Layout) -> client.ApiClient:
    """A client with the certificate that needs no binding; it never uses a proxy."""
    configuration = client.Configuration()
    configuration.host = layout.api_url
    configuration.ssl_ca_cert = str(layout.certificate("ca"))
    configuration.cert_file = str(layout.certificate("bootstrap"))
    configuration.key_file = str(layout.key("bootstrap"))
    configuration.proxy = None
    configuration.retries = False
    return client.ApiClient(configuration)


def attempt(call: Callable[[], str | None]) -> str | None:
    """Run a check against the API; where it can't be reached, that is the answer."""
    try:
        return call()
    except UNREACHABLE as error:
        return reason(error)


def reason(error: Exception) -> str:
    """One of `UNREACHABLE` in words."""
    if isinstance(error, client.ApiException):
        return f"the API server answers: {kube.api_message(error)}"
    return f"the API server can't be reached: {error}"


def readiness_problem(api: client.ApiClient) -> str | None:
    """What keeps the API server from being ready (its /readyz), or None."""

    def ask() -> str | None:
        url = f"{api.configuration.host}/readyz"
        answer = api.call_api("GET", url, _request_timeout=LIMIT)
        return None if answer.status == 200 else f"/readyz answers {answer.status}"

    return attempt(ask)


def node_problem(api: client.ApiClient, layout: Layout) -> str | None:
    """What keeps the node from being Ready, or None."""

    def ask() -> str | None:
        request = kube.Request("GET", f"/api/v1/nodes/{layout.node}")
        ready = condition(kube.ask(api, request, limit=LIMIT), "Ready")
        if not ready:
            return "the kubelet has not reported yet"
        return None if ready["status"] == "True" else str(ready["message"])

    return attempt(ask)
