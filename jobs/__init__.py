"""Training jobs: their declarations, and the lifecycle of a run."""
