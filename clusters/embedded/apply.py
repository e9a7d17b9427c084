"""Brings objects to what their manifests say, by server-side apply."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.dynamic import DynamicClient

from clusters.embedded import api, waiting
from clusters.embedded.layout import Layout

FIELD_MANAGER = "slipway"
LIMIT = 20


def ensure(
    layout: Layout, connection: client.ApiClient, manifests: Iterable[dict[str, Any]]
) -> None:
    """Make or correct every object.

    Raises:
        TimeoutError: the API server still refuses one after `LIMIT` seconds; right after its
            start it does so until its namespaces are there.
    """
    # By default what the server knows is kept in a file in /tmp that outlives the cluster.
    cache = str(layout.runtime / "discovery.json")
    objects = DynamicClient(connection, cache_file=cache)  # type: ignore[no-untyped-call]
    for manifest in manifests:
        waiting.until_well(
            partial(api.attempt, partial(_apply, objects, manifest)),
            what=f"{manifest['kind']} {manifest['metadata']['name']} applied",
            limit=LIMIT,
        )


def _apply(objects: DynamicClient, manifest: dict[str, Any]) -> None:
    kind = objects.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
    objects.server_side_apply(  # type: ignore[no-untyped-call]
        kind,
        body=manifest,
        namespace=manifest["metadata"].get("namespace"),
        field_manager=FIELD_MANAGER,
        force_conflicts=True,
    )
