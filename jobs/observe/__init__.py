"""Observe a run, and derive its outcome, cause and result."""
