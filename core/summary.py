"""What the user should read before confirming: the costs, and what `up` will refuse.

Pulumi shows it among much else. `make preview` collects it in a file, and ends with that.
"""

import os
from collections.abc import Callable
from pathlib import Path

VARIABLE = "SLIPWAY_CLOSING"
"""The environment variable with the file's path."""


def show(text: str, log: Callable[[str], None]) -> None:
    """Log a text, and append it to the file when the variable names one."""
    log(text)
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as summary:
            summary.write(f"{text}\n")
