"""The cluster kind `azure-stack`: AKS on Azure Local, on your own machines, through Azure Arc."""

from clusters.cluster import Kind
from core import tokens
from core.handler import Lazy

KIND = Kind(
    settings=Lazy("clusters.azure_stack.settings.AzureStackSettings"),
    gpus=Lazy("clusters.azure_stack.settings.gpus"),
    pools=Lazy("clusters.azure_stack.settings.pools"),
    declare=Lazy("clusters.azure_stack.provision.provision"),
    handlers={
        tokens.AZURE_LOCAL_KUBECONFIG: Lazy("clusters.azure_stack.kubeconfig.KubeconfigHandler")
    },
    remains=Lazy("clusters.azure.checks.remains"),
    tools=("pulumi-resource-azure-native",),
    extra="azure",
)
