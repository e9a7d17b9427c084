"""What the Makefile calls: python -m scripts.cli up dev."""

# ruff: noqa: PLC0415 - a command imports what it needs itself: all together take a second
import argparse
import os
import subprocess
import sys

from core.toolchain import ToolMissing
from scripts.cli.errors import CommandError
from scripts.cli.pulumi_cli import INTERRUPTED
from scripts.environment import beside_proxies
from scripts.setup.state import PassphraseLost

_EXPECTED = (CommandError, PassphraseLost, ToolMissing, subprocess.SubprocessError)
"""What can go wrong without a fault in this program: the text alone is shown."""


def main() -> int:
    """Exits with Pulumi's or kubectl's status, or with 1 after a message."""
    arguments = _parser().parse_args()
    # For what is asked of a cluster here, and not through Pulumi.
    os.environ.update(beside_proxies(os.environ))
    try:
        return _print_environment() if arguments.command == "env" else _dispatch(arguments)
    except BrokenPipeError:
        # Whoever read has enough, as `head` has. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _EXPECTED as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(arguments: argparse.Namespace) -> int:
    command, stack = arguments.command, arguments.stack
    if command == "results":
        from scripts.cli import results

        code = results.show(stack, arguments.job, arguments.format)
    elif command == "logs":
        from scripts.cli.files import check
        from scripts.cli.logs.command import show
        from scripts.cli.logs.view import Options

        check(stack)
        code = show(stack, arguments.job, Options(arguments.rank, follow=arguments.follow))
    elif command == "kubeconfig":
        from scripts.cli import kubeconfig

        code = kubeconfig.merge(stack)
    else:
        from scripts.cli.recovery import alone

        with alone(stack):
            code = _change(command, stack, getattr(arguments, "job", ""))
    return code


def _change(command: str, stack: str, job: str) -> int:
    if command == "rerun":
        from scripts.cli import rerun

        code = rerun.rerun(stack, job)
    elif command == "down":
        from scripts.cli.down import down

        code = down(stack)
    else:
        from scripts.cli import commands

        code = commands.preview(stack) if command == "preview" else commands.up(stack)
    return code


def _print_environment() -> int:
    from core import toolchain
    from scripts.environment import shell
    from scripts.setup.state import prepare

    toolchain.path("pulumi")  # says so when there has been no set-up
    prepare()
    print(shell(os.environ))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.cli", description=__doc__)
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
