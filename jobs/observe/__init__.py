"""Observe a run, and derive its end, cause and result. Pure."""
