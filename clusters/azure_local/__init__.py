"""The parts of AKS on Azure Local: a cluster on a company's own machines, managed through Arc."""

from clusters.cluster import Kind
from core.lazy import Lazy

KIND = Kind(
    settings=Lazy("clusters.azure_stack.Settings"),
    gpus=Lazy("clusters.azure_stack.gpus"),
    pools=Lazy("clusters.azure_stack.pools"),
    declare=Lazy("clusters.azure_stack.provision"),
    remains=Lazy("clusters.azure_stack.remains"),
    extra="azure",
)
