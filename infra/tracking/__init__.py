"""Experiment tracking: its settings, and the stack's optional tracking server."""
