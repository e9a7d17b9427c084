"""Asks the API server, from the host with a certificate, and puts in what a cluster starts with."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from kubernetes import client

from clusters.embedded import host, pki
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, Layout
from core import kube, manifests
from core.manifests import Manifest, unready
from core.wait import until_well

LIMIT = (2, 10)
"""Seconds to connect, and to answer."""
PROVISIONER = "slipway.local/directory"
"""Serves the default StorageClass: `clusters.embedded.provisioner`."""
_APPLY_LIMIT = 20


def connect(layout: Layout) -> client.ApiClient:
    """A client with the certificate that needs no binding."""
    return kube.connect(pki.kubeconfig(layout, "bootstrap"))


def attempt(call: Callable[[], str | None]) -> str | None:
    """Run a check against the API; where it can't be reached, that is the answer."""
    try:
        return call()
    except kube.UNREACHABLE as error:
        return kube.reason(error)


def readiness_problem(api: client.ApiClient) -> str | None:
    """What keeps the API server from being ready (its /readyz), or None."""

    def ask() -> None:
        kube.send(api, kube.Request("GET", "/readyz"), limit=LIMIT)

    return attempt(ask)


def node_problem(api: client.ApiClient, layout: Layout) -> str | None:
    """What keeps the node from being Ready, or None."""
    request = kube.Request("GET", f"/api/v1/nodes/{layout.node}")
    return attempt(lambda: unready(kube.ask(api, request, limit=LIMIT)))


def addons() -> list[Manifest]:
    """Return every object that a cluster starts with, in the order in which to make them."""
    return manifests.rendered(
        Path(__file__).with_name("addons.yaml"),
        dns_domain=DNS_DOMAIN,
        dns_service=str(DNS_SERVICE),
        image=host.image_reference("coredns"),
        provisioner=PROVISIONER,
        **host.COREDNS_REQUESTS,
    )


def apply_addons(api: client.ApiClient) -> None:
    """Make or correct every object, by server-side apply.

    Right after its start, the API server refuses some until its namespaces exist.
    """
    for addon in addons():
        until_well(
            partial(attempt, partial(_apply, api, addon)),
            what=f"{addon['kind']} {addon['metadata']['name']} applied",
            limit=_APPLY_LIMIT,
        )


def _apply(api: client.ApiClient, addon: Manifest) -> None:
    version, metadata = addon["apiVersion"], addon["metadata"]
    group = "/api/v1" if version == "v1" else f"/apis/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    plural = f"{addon['kind'].lower()}{'es' if addon['kind'].endswith('s') else 's'}"
    path = f"{group}{scope}/{plural}/{metadata['name']}"
    query = {"fieldManager": "slipway", "force": "true"}
    kube.ask(api, kube.Request("PATCH", path, query, addon, apply=True), limit=LIMIT)
