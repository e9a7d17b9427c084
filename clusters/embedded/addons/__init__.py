"""What every cluster has in it from the start, as plain manifests."""

from typing import Any

from clusters.embedded.addons import access, coredns, storage
from clusters.embedded.component import Host

Manifest = dict[str, Any]


def manifests(host: Host) -> list[Manifest]:
    """Every object, in the order in which to make them."""
    return [*access.manifests(), *coredns.manifests(host), *storage.manifests()]
