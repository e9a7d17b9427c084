"""Where training runs: every kind of cluster behind one interface."""

from collections.abc import Mapping

from clusters.cluster import ClusterKind

CLUSTERS: Mapping[str, ClusterKind] = {
    "embedded": ClusterKind("clusters.embedded.provision"),
}
"""Every kind that `slipway:cluster` may name. A new one is one module and one line here."""
