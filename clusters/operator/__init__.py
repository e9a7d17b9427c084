"""Kubeflow's training operator: its releases, one that is there already, or the stack's own."""
