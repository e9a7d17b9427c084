"""What the Makefile calls: python -m scripts.stack up dev."""

import argparse
import os
import subprocess
import sys

from infra import toolchain
from scripts.environment import shell
from scripts.setup.state import PassphraseLost, prepare
from scripts.stack import commands, logs
from scripts.stack.cli import Cli, PulumiFailed
from scripts.stack.files import StackFileError, check
from scripts.stack.recovery import StackBusy

_EXPECTED = (
    StackFileError,
    StackBusy,
    PulumiFailed,
    PassphraseLost,
    logs.NoLogs,
    toolchain.ToolMissing,
    subprocess.SubprocessError,
)
"""What can go wrong without a fault in this program: the text alone is shown."""


def main() -> int:
    """Exits with Pulumi's or kubectl's status, or with 1 after a message."""
    arguments = _parser().parse_args()
    try:
        return _dispatch(arguments)
    except _EXPECTED as error:
        commands.say(str(error))
        return 1


def _dispatch(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "env":
            toolchain.path("pulumi")  # says so when there has been no set-up
            prepare()
            print(shell(os.environ))
            return 0
        case "up":
            return commands.up(arguments.stack)
        case "preview":
            return commands.preview(arguments.stack)
        case "down":
            return commands.down(arguments.stack)
        case _:
            check(arguments.stack)
            return logs.show(Cli(arguments.stack), arguments.job, arguments.rank)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.stack", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    subcommands.add_parser("env", help="print the environment for a shell to evaluate")
    for name in ("up", "preview", "down", "logs"):
        subcommand = subcommands.add_parser(name)
        subcommand.add_argument("stack")
    subcommand.add_argument("job")
    subcommand.add_argument("rank", nargs="?", type=_rank)
    return parser


def _rank(text: str) -> int | None:
    """A rank that is given and empty is none: `make logs` passes what it was given."""
    if text == "":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"RANK is {text!r}; it is a number from 0 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
