"""Kubeflow's training operator: releases, installation, and the wait until it is ready."""
