"""Modules shared by the cluster kinds `aks` and `azure-stack`."""
