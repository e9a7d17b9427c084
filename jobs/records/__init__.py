"""What a run's ranks print: read while they run, and kept."""
