"""Draws docs/terminal.svg, README's picture of `make up` in a terminal of 100 columns.

    python -m tests.docs.picture

It brings the stack dev up in a copy of the checkout, with a state of its own, and down again.
"""

import re
import subprocess
import sys
from io import StringIO

from rich.console import Console
from rich.text import Text

from core.paths import CHECKOUT
from scripts.scratch import Scratch

PICTURE = CHECKOUT / "docs/terminal.svg"
COLUMNS = 100
_COMMAND = "make up"
_LIMIT_SECONDS = 1800
_TYPED = f"stty cols {COLUMNS} rows 50; export PULUMI_OPTION_NON_INTERACTIVE=true; {_COMMAND}"
_ROW = re.compile(
    r"^ \S+ +(?P<resource>slipway:\S+ \S+) (?P<state>\w+ \((?P<seconds>\d+)\S*\).*\S)"
)
_SUM = re.compile(r"^(Updating|Resources:|    \+|Duration:|job +state|─|\S+ +Succeeded)")
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts of another site, which a picture in a page may not load."""


def record() -> str:
    """Return what the command prints to a terminal, colors included.

    Raises:
        subprocess.CalledProcessError: it has failed.
    """
    scratch = Scratch.copy_of(CHECKOUT)
    try:
        typed = f'script --quiet --return --command "{_TYPED}" typescript'
        finished = scratch.run(typed, _LIMIT_SECONDS)
        if finished.code != 0:
            raise subprocess.CalledProcessError(finished.code, _COMMAND, finished.text)
        return (scratch.checkout / "typescript").read_text()
    finally:
        scratch.run("make down", _LIMIT_SECONDS)
        scratch.remove()


def draw(recorded: str) -> str:
    """Return the picture, as SVG, of the command and what it printed.

    It has the rows of Slipway's own resources, of each second the last one, and the sum.
    """
    shown: dict[tuple[str, ...], Text] = {}
    for text in map(Text.from_ansi, recorded.splitlines()):
        if row := _ROW.match(text.plain):
            shown[row["resource"], row["state"].split()[0], row["seconds"]] = text
        elif _SUM.match(text.plain):
            shown[(text.plain,)] = text
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {_COMMAND}", style="bold"))
    for text in shown.values():
        console.print(text)
    return _FONTS.sub("", console.export_svg(title="Slipway", unique_id="slipway"))


if __name__ == "__main__":
    try:
        PICTURE.write_text(draw(record()))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error}\n{error.output}")
