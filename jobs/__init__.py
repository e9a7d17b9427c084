"""Training jobs: how they are declared, and the life of a run."""
