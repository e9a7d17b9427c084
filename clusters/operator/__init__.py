"""Kubeflow's training operator: its releases, its installation, and waiting until it is ready."""
