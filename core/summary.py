"""What a person should have read before saying yes: what it costs, and what `up` will refuse.

Pulumi shows it among much else. `make preview` asks for it in a file, and ends with that.
"""

import os
from collections.abc import Callable
from pathlib import Path

VARIABLE = "SLIPWAY_CLOSING"
"""Names the file."""


def tell(text: str, say: Callable[[str], None]) -> None:
    """Tell a text, and add it to the file; nobody has asked for any where there is none."""
    say(text)
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as closing:
            closing.write(f"{text}\n")
