"""Writes down every start of Pulumi's CLI: Python loads this in each process of `make test`.

Each is a line of the file that CLI_CALLS names: the test that is on, as far as that is known.
"""

import os
import sys
from pathlib import Path
from typing import Any


def _write_down(event: str, arguments: tuple[Any, ...]) -> None:
    # scripts/guard.py becomes the CLI; a test may start one without it.
    if event == "os.exec":
        program = os.fsdecode(arguments[0])
    elif event == "subprocess.Popen":
        command = arguments[1]
        program = os.fsdecode(command if isinstance(command, str | bytes) else command[0])
    else:
        return
    if "CLI_CALLS" in os.environ and Path(program).name == "pulumi":
        with Path(os.environ["CLI_CALLS"]).open("a") as file:
            file.write(f"{os.environ.get('PYTEST_CURRENT_TEST', '')}\n")


sys.addaudithook(_write_down)
