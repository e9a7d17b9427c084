"""How a command talks to the user: lines, tables, and errors whose text alone is shown."""

import sys
from typing import TYPE_CHECKING

from core.wording import as_typed

if TYPE_CHECKING:  # It is of no use to most commands.
    from rich.console import Console


class CommandError(Exception):
    """What can go wrong without a fault in this program: its text alone is shown."""


def echo(line: str) -> None:
    """Print a line between those of Pulumi."""
    print(as_typed(line), file=sys.stderr, flush=True)


def console() -> "Console":
    """Return what prints tables as they are, whatever is in their cells."""
    from rich.console import Console  # noqa: PLC0415 - see above

    width = None if Console().is_terminal else 10_000  # a table is as wide as its content
    return Console(width=width, highlight=False, markup=False, emoji=False)
