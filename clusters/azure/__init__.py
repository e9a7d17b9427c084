"""An AKS cluster's parts on Azure: one module for each, put together in `clusters.aks`.

Only the modules of a cluster that is provisioned import `pulumi_azure_native`, which takes half a
second to load and is there only after `make setup` of such a stack.
"""
