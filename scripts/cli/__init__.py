"""What the Makefile calls for a stack: up, preview, down, rerun, logs, results, env."""


class CommandError(Exception):
    """What can go wrong without a fault in this program: its text alone is shown."""
