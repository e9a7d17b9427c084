"""The output of a run's ranks: its logs, events and history."""
