"""Kubeflow's training operator: its releases, the stack's own, and whether one is ready."""
