"""The training operator: what is installed for it, and whether it works."""
