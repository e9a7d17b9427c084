"""Start the `slipway` command of an installed package, which contains a copy of the repository.

The copy, `slipway_command/tree`, is on the import path of only the command's own processes. Help,
completion and option errors require nothing else; the first other command creates the Python
environment.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

_START = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
from scripts.cli.__main__ import slipway
slipway(prog_name="slipway")
"""


def main() -> None:
    """Run a command for the current folder; if that is a checkout, use the checkout's code."""
    tree = folder = Path.cwd()
    os.environ.pop("SLIPWAY_PROJECT", None)  # the shell may have evaluated another folder's `env`
    if not (tree / "scripts/cli/calls.py").is_file():
        tree = Path(__file__).resolve().parent.parent
        os.environ["SLIPWAY_PROJECT"] = str(folder)
    sys.path.insert(0, str(tree))
    from scripts.cli.__main__ import slipway  # noqa: PLC0415 - needs the path above

    slipway(prog_name="slipway", obj=lambda: _enter(tree))


def _enter(tree: Path) -> NoReturn:
    """Restart this command in the Python environment that contains its dependencies."""
    from scripts.environment import UNSET  # noqa: PLC0415 - see above
    from scripts.setup import bootstrap  # noqa: PLC0415

    python = str(bootstrap.ready() / "bin" / "python")
    # Programs that run on this machine keep the user's environment variables.
    unset = () if sys.argv[1:2] in (["run"], ["local"]) else UNSET
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    # -P ignores a folder `jobs` next to the stack's file, and -E one on PYTHONPATH: neither is
    # Slipway's.
    command = [python, "-E", "-P", "-X", "utf8", "-c", _START, str(tree), *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(python, command, {**variables, "PYTHONUTF8": "1"})  # noqa: S606
