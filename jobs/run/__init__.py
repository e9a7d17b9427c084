"""The resources of a run: how it is submitted, changed in place, retried, gated and removed."""
