"""Where training runs: every kind of cluster behind one interface."""

from collections.abc import Mapping

from clusters.cluster import ClusterKind
from core.text import likeliest

CLUSTERS: Mapping[str, ClusterKind] = {
    "aks": ClusterKind("clusters.aks", extra="azure"),
    "azure-stack": ClusterKind("clusters.azure_stack", extra="azure"),
    "embedded": ClusterKind("clusters.embedded.provision"),
    "kind": ClusterKind("clusters.kind"),
    "minikube": ClusterKind("clusters.minikube"),
    "kubeconfig": ClusterKind("clusters.kubeconfig"),
}
"""Every kind that `slipway:cluster` may name. A new one is one module and one line here."""

_ALSO_CALLED: Mapping[str, str] = {"azure": "aks", "azure-local": "azure-stack", "dev": "embedded"}
"""What a kind may be taken for: mostly the stack that it comes with."""


def meant(said: str) -> str | None:
    """Return the kind that somebody most probably means; None when it is like none."""
    return _ALSO_CALLED.get(said.lower()) or likeliest(said, CLUSTERS.keys())
