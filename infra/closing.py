"""What a person should have read before saying yes: what it costs, and what `up` will refuse.

Pulumi shows it among much else. `make preview` asks for it in a file, and ends with that.
"""

import os
from pathlib import Path

VARIABLE = "SLIPWAY_CLOSING"
"""Names the file."""


def note(text: str) -> None:
    """Add a text to the file; nobody has asked for any where there is none."""
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as closing:
            closing.write(f"{text}\n")
