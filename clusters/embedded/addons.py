"""What every cluster has in it from the start, as addons.yaml has it."""

from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.dynamic import DynamicClient

from clusters.embedded import api, documents, host
from clusters.embedded.layout import DNS_DOMAIN, DNS_SERVICE, Layout
from core.wait import until_well

PROVISIONER = "slipway.local/directory"
"""Serves the default StorageClass: `clusters.embedded.provisioner`."""
_APPLY_LIMIT = 20


def manifests() -> list[dict[str, Any]]:
    """Return every object, in the order in which to make them."""
    values = {
        "dns_domain": DNS_DOMAIN,
        "dns_service": DNS_SERVICE,
        "image": host.image_reference("coredns"),
        "provisioner": PROVISIONER,
        **host.COREDNS_REQUESTS,
    }
    return [documents.fill(each, values) for each in documents.load("addons.yaml")]


def apply(layout: Layout, connection: client.ApiClient) -> None:
    """Make or correct every object, by server-side apply.

    Raises:
        TimeoutError: the API server still refuses one after `_APPLY_LIMIT` seconds; right after its
            start it does so until its namespaces exist.
    """
    # By default what the server knows is kept in a file in /tmp that outlives the cluster.
    cache = str(layout.runtime / "discovery.json")
    objects = DynamicClient(connection, cache_file=cache)  # type: ignore[no-untyped-call]
    for manifest in manifests():
        until_well(
            partial(api.attempt, partial(_apply, objects, manifest)),
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
