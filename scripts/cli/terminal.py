"""Output of commands: lines, tables, and errors that show only their text."""

import sys
from typing import TYPE_CHECKING

from core.wording import as_typed

if TYPE_CHECKING:  # Most commands don't need it.
    from rich.console import Console


class CommandError(Exception):
    """An error that is not a bug in this program; the user sees only its text."""


def echo(line: str) -> None:
    """Print a line to stderr, among Pulumi's."""
    print(as_typed(line), file=sys.stderr, flush=True)


def console() -> "Console":
    """Return a console that prints the text of cells literally."""
    from rich.console import Console  # noqa: PLC0415 - see above

    width = None if Console().is_terminal else 10_000  # a table is as wide as its content
    return Console(width=width, highlight=False, markup=False, emoji=False)
