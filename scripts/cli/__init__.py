"""What the Makefile calls for a stack: up, preview, down, rerun, logs, results and others."""

import sys


class CommandError(Exception):
    """What can go wrong without a fault in this program: its text alone is shown."""


def echo(line: str) -> None:
    """Print a line between those of Pulumi."""
    print(line, file=sys.stderr, flush=True)
