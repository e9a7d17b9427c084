"""Where training runs: every kind of cluster behind one interface, `clusters.cluster.Kind`."""

from collections.abc import Mapping
from importlib import import_module

from clusters.cluster import Kind
from core.problem import likeliest


def _kind_of(folder: str) -> Kind:
    kind: Kind = import_module(folder).KIND
    return kind


CLUSTERS: Mapping[str, Kind] = {
    "aks": _kind_of("clusters.aks"),
    "azure-stack": _kind_of("clusters.azure_stack"),
    "embedded": _kind_of("clusters.embedded"),
    "kind": _kind_of("clusters.kind"),
    "minikube": _kind_of("clusters.minikube"),
    "kubeconfig": _kind_of("clusters.kubeconfig"),
}
"""Every kind that `slipway:cluster` may name. A new one is one folder and one line here."""

_ALSO_CALLED: Mapping[str, str] = {"azure": "aks", "azure-local": "azure-stack", "dev": "embedded"}
"""What a kind may be taken for: mostly the stack that it comes with."""


def closest_kind(name: str) -> str | None:
    """Return the kind that a wrong name most probably stands for; None when it is like none."""
    return _ALSO_CALLED.get(name.lower()) or likeliest(name, CLUSTERS.keys())
