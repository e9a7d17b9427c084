"""What the Makefile calls: python -m scripts.stack up dev."""

import argparse
import os
import subprocess
import sys

from infra import toolchain
from scripts.environment import shell
from scripts.setup.state import PassphraseLost, prepare
from scripts.stack import commands, kubeconfig, rerun, results
from scripts.stack.cli import INTERRUPTED, PulumiFailed
from scripts.stack.files import StackFileError, check
from scripts.stack.log import command as logs
from scripts.stack.log.target import NoLogs
from scripts.stack.recovery import StackBusy

_EXPECTED = (
    StackFileError,
    StackBusy,
    PulumiFailed,
    PassphraseLost,
    NoLogs,
    rerun.NoRun,
    results.NoResults,
    kubeconfig.NoKubeconfig,
    toolchain.ToolMissing,
    subprocess.SubprocessError,
)
"""What can go wrong without a fault in this program: the text alone is shown."""


def main() -> int:
    """Exits with Pulumi's or kubectl's status, or with 1 after a message."""
    arguments = _parser().parse_args()
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        # Whoever read has enough, as `head` has. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _EXPECTED as error:
        commands.say(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command == "env":
        return _print_environment()
    if arguments.command == "results":
        return results.show(arguments.stack, arguments.job, arguments.format)
    if arguments.command == "kubeconfig":
        return kubeconfig.merge(arguments.stack)
    if arguments.command == "rerun":
        return rerun.rerun(arguments.stack, arguments.job)
    if arguments.command == "logs":
        check(arguments.stack)
        options = logs.Options(arguments.rank, follow=arguments.follow)
        return logs.show(arguments.stack, arguments.job, options)
    changing = {"up": commands.up, "preview": commands.preview, "down": commands.down}
    return changing[arguments.command](arguments.stack)


def _print_environment() -> int:
    toolchain.path("pulumi")  # says so when there has been no set-up
    prepare()
    print(shell(os.environ))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.stack", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    subcommands.add_parser("env", help="print the environment for a shell to evaluate")
    for name in ("up", "preview", "down", "kubeconfig", "rerun", "results", "logs"):
        subcommand = subcommands.add_parser(name)
        subcommand.add_argument("stack")
        if name in {"rerun", "results", "logs"}:
            subcommand.add_argument("job")
        if name == "results":
            subcommand.add_argument("format", choices=("text", "json"))
    subcommand.add_argument("rank", nargs="?", type=_rank)
    subcommand.add_argument("follow", nargs="?", type=_follow, default=True)
    return parser


def _rank(text: str) -> int | None:
    """A rank that is given and empty is none: `make logs` passes what it was given."""
    if text == "":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"RANK is {text!r}; it is a number from 0 on")
    return int(text)


def _follow(text: str) -> bool:
    """Whether `make logs` goes on while the run does."""
    if text not in {"0", "1"}:
        raise argparse.ArgumentTypeError(f"FOLLOW is {text!r}; 0 prints what there is and ends")
    return text == "1"


if __name__ == "__main__":
    sys.exit(main())
