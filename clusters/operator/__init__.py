"""Kubeflow's training operator: its releases, its installation, and the wait until it is ready."""
