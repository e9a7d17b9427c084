"""Writes down every start of Pulumi's CLI: Python loads this in each process of `make test`.

Each is a line of the file that CLI_CALLS names: the test that is on, as far as that is known.
"""

import os
import sys
from pathlib import Path
from typing import Any


def _write_down(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or "CLI_CALLS" not in os.environ:
        return
    command = [arguments[1]] if isinstance(arguments[1], str | bytes) else arguments[1]
    program, *rest = map(os.fsdecode, command)
    # What a person types goes to a shell.
    words = rest[-1].split() if program.endswith("sh") and rest else [program]
    starts = [word for word in words if Path(word).name == "pulumi"]
    if starts:
        with Path(os.environ["CLI_CALLS"]).open("a") as file:
            file.write(f"{os.environ.get('PYTEST_CURRENT_TEST', '')}\n" * len(starts))


sys.addaudithook(_write_down)
