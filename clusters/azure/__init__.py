"""What the kinds `aks` and `azure-stack` share."""
