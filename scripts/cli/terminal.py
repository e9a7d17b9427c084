"""Output for commands: lines, tables, and errors that are shown without a traceback."""

import sys
from typing import TYPE_CHECKING

from core.wording import as_typed

if TYPE_CHECKING:  # most commands don't need it
    from rich.console import Console


class CommandError(Exception):
    """An error that is not a bug in Slipway; the user sees only the message."""


def echo(line: str) -> None:
    """Print a line to stderr, with commands as the user would type them."""
    print(as_typed(line), file=sys.stderr, flush=True)


def console() -> "Console":
    """Return a console that prints text literally, without interpreting markup."""
    from rich.console import Console  # noqa: PLC0415 - see above

    width = None if Console().is_terminal else 10_000  # tables are as wide as their content
    return Console(width=width, highlight=False, markup=False, emoji=False)
