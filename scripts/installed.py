"""The command as a package has it, where this repository's folders lie in `slipway_command/tree`.

That is on the path of the command's own processes alone. Help, completion and what is wrong with a
command's options are there at once; the first command makes the Python environment.
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
    """Run a command on the folder that it is called in; in a checkout it is the checkout's own."""
    tree = folder = Path.cwd()
    if not (tree / "scripts/cli/calls.py").is_file():
        tree = Path(__file__).resolve().parent.parent
        os.environ["SLIPWAY_PROJECT"] = str(folder)
    sys.path.insert(0, str(tree))
    from scripts.cli.__main__ import slipway  # noqa: PLC0415 - only now it can be found

    slipway(prog_name="slipway", obj=lambda: _enter(tree))


def _enter(tree: Path) -> NoReturn:
    """Begin again in the environment that has what the commands need."""
    from scripts.environment import UNSET  # noqa: PLC0415 - see above
    from scripts.setup import bootstrap  # noqa: PLC0415

    python = str(bootstrap.ready() / "bin" / "python")
    # A program that runs here gets its user's own environment.
    unset = () if sys.argv[1:2] in (["run"], ["local"]) else UNSET
    variables = {name: value for name, value in os.environ.items() if name not in unset}
    # -P: a folder `jobs` of the user's, beside the stack's file, is none of ours; -E: nor is theirs
    # on PYTHONPATH.
    command = [python, "-E", "-P", "-X", "utf8", "-c", _START, str(tree), *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(python, command, {**variables, "PYTHONUTF8": "1"})  # noqa: S606
