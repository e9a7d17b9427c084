"""The cluster kind `aks`: Azure Kubernetes Service with a GPU node pool."""

from clusters.cluster import Kind
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("clusters.aks.settings.AksSettings"),
    gpus=Lazy("clusters.aks.settings.gpus"),
    pools=Lazy("clusters.aks.settings.pools"),
    declare=Lazy("clusters.aks.provision.provision"),
    remains=Lazy("clusters.azure.checks.remains"),
    tools=("pulumi-resource-azure-native",),
    extra="azure",
)
