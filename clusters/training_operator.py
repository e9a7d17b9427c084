"""The training operator, as far as a cluster has to know of it: whose it is, and its room."""

NAME = "training-operator"
NAMESPACE = "kubeflow"
REQUESTS = {"cpu": "50m", "memory": "64Mi"}
"""What the only pod of the one that Slipway installs asks for."""
