"""Where training runs: every kind of cluster behind one interface."""

from collections.abc import Mapping

from clusters.cluster import ClusterKind

CLUSTERS: Mapping[str, ClusterKind] = {
    "aks": ClusterKind("clusters.aks"),
    "azure-stack": ClusterKind("clusters.azure_stack"),
    "embedded": ClusterKind("clusters.embedded.provision"),
    "kind": ClusterKind("clusters.kind"),
    "minikube": ClusterKind("clusters.minikube"),
    "kubeconfig": ClusterKind("clusters.kubeconfig"),
}
"""Every kind that `slipway:cluster` may name. A new one is one module and one line here."""
