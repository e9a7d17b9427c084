"""Modules that the kinds `aks` and `azure-stack` share."""
