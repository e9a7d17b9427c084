"""Reads and applies objects at the API server, from the host with a certificate."""

import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import urllib3.exceptions
from kubernetes import client
from kubernetes.dynamic import DynamicClient

from clusters.embedded.layout import Layout
from core import kube
from core.wait import until_well

LIMIT = (2, 10)
"""Seconds to connect, and to answer."""

# The errors while the API server does not run, or not yet.
UNREACHABLE = (urllib3.exceptions.HTTPError, client.ApiException, ssl.SSLError, OSError)

_APPLY_LIMIT = 20


def connect(layout: Layout, user: str = "bootstrap") -> client.ApiClient:
    """A client that uses the certificate of `user`, and never a proxy."""
    configuration = client.Configuration()
    configuration.host = layout.api_url
    configuration.ssl_ca_cert = str(layout.certificate("ca"))
    configuration.cert_file = str(layout.certificate(user))
    configuration.key_file = str(layout.key(user))
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
        for condition in kube.ask(api, request, limit=LIMIT)["status"].get("conditions", []):
            if condition["type"] == "Ready":
                return None if condition["status"] == "True" else str(condition["message"])
        return "the kubelet has not reported yet"

    return attempt(ask)


def apply(
    layout: Layout, connection: client.ApiClient, manifests: Iterable[dict[str, Any]]
) -> None:
    """Make or correct every object, by server-side apply.

    Raises:
        TimeoutError: the API server still refuses one after `_APPLY_LIMIT` seconds; right after its
            start it does so until its namespaces exist.
    """
    # By default what the server knows is kept in a file in /tmp that outlives the cluster.
    cache = str(layout.runtime / "discovery.json")
    objects = DynamicClient(connection, cache_file=cache)  # type: ignore[no-untyped-call]
    for manifest in manifests:
        until_well(
            partial(attempt, partial(_apply, objects, manifest)),
            what=f"{manifest['kind']} {manifest['metadata']['name']} applied",
            limit=_APPLY_LIMIT,
        )


def _apply(objects: DynamicClient, manifest: dict[str, Any]) -> None:
    kind = objects.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    objects.server_side_apply(  # type: ignore[no-untyped-call]
        kind,
        body=manifest,
        namespace=manifest["metadata"].get("namespace"),
        field_manager="slipway",
        force_conflicts=True,
    )
