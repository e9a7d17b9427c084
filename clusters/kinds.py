"""Every kind of cluster, by the name that a stack gives it."""

from collections.abc import Mapping

from clusters import aks, azure_stack, embedded, kind, kubeconfig, minikube
from clusters.cluster import Kind
from core.problem import likeliest

CLUSTERS: Mapping[str, Kind] = {
    "aks": aks.KIND,
    "azure-stack": azure_stack.KIND,
    "embedded": embedded.KIND,
    "kind": kind.KIND,
    "minikube": minikube.KIND,
    "kubeconfig": kubeconfig.KIND,
}
"""Every kind that `slipway:cluster` may name. A new one is one folder and one line here."""

_ALSO_CALLED: Mapping[str, str] = {"azure": "aks", "azure-local": "azure-stack", "dev": "embedded"}
"""What a kind may be taken for: mostly the stack that it comes with."""


def closest_kind(name: str) -> str | None:
    """Return the kind that a wrong name most probably stands for; None when it is like none."""
    return _ALSO_CALLED.get(name.lower()) or likeliest(name, CLUSTERS.keys())
