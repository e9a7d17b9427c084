"""The output from a run's ranks: its logs, events and history."""
