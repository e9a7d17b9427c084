"""An AKS cluster's parts on Azure: one module for each, put together in `clusters.aks`.

Only the modules of a cluster that is provisioned import `pulumi_azure_native`, which takes half a
second to load and is there only after `make setup` of such a stack.
"""

from clusters.cluster import Kind
from core.lazy import Lazy

KIND = Kind(
    settings=Lazy("clusters.aks.Settings"),
    gpus=Lazy("clusters.aks.gpus"),
    pools=Lazy("clusters.aks.pools"),
    declare=Lazy("clusters.aks.provision"),
    remains=Lazy("clusters.aks.remains"),
    extra="azure",
)
