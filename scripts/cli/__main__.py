"""What the Makefile calls: python -m scripts.cli up dev."""

import argparse
import os
import sys
from contextlib import nullcontext
from pkgutil import resolve_name

from core import toolchain
from core.process import CommandFailed
from scripts.cli.backend import INTERRUPTED
from scripts.cli.terminal import CommandError
from scripts.environment import PassphraseLost, applied, prepare, shell

_EXPECTED = (CommandError, CommandFailed, PassphraseLost, toolchain.ToolMissing)
"""What can go wrong without a fault in this program: the text alone is shown."""
_FUNCTIONS = {
    "up": "commands:up",
    "preview": "commands:preview",
    "rerun": "commands:rerun",
    "down": "down:down",
    "kubeconfig": "kubeconfig:merge",
    "results": "runs.results:show",
    "logs": "runs.logs:show",
    "fetch": "runs.fetch:fetch",
    "ui": "ui:show",
    "report": "runs.report:report",
    "compare": "runs.compare:compare",
}
"""Each command imports what it needs itself: importing all of them takes a second."""
_CHANGING = frozenset({"up", "preview", "rerun", "down"})


def main() -> int:
    """Exits with Pulumi's or kubectl's status, or with 1 after a message."""
    arguments = vars(_parser().parse_args())
    try:
        return _run(**arguments)
    except BrokenPipeError:
        # Whoever read has enough, as `head` has. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _EXPECTED as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(command: str, **arguments: object) -> int:
    if command == "env":
        toolchain.path("pulumi")  # raises before set-up has run
        prepare()
        print(shell(os.environ))
        return 0
    variables = applied(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    lock = nullcontext()
    if command in _CHANGING:
        lock = resolve_name("scripts.cli.recovery:alone")(arguments["stack"])
    with lock:
        code: int = resolve_name(f"scripts.cli.{_FUNCTIONS[command]}")(**arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.cli", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    subcommands.add_parser("env", help="print the environment for a shell to evaluate")
    for name in _FUNCTIONS:
        subcommand = subcommands.add_parser(name)
        subcommand.add_argument("stack")
        if name in {"rerun", "results", "logs", "fetch", "report", "compare", "ui"}:
            subcommand.add_argument("job")
        if name == "results":
            subcommand.add_argument("format", choices=("text", "json"))
        if name in {"fetch", "report"}:
            subcommand.add_argument("to", nargs="?", default="")
        if name == "fetch":
            subcommand.add_argument("run", nargs="?", default="", choices=("", "succeeded"))
        if name == "ui":
            subcommand.add_argument("port", type=_port)
        if name == "compare":
            subcommand.add_argument("other", nargs="?", default="")
        if name == "logs":
            subcommand.add_argument("rank", nargs="?", type=_rank)
            subcommand.add_argument("follow", nargs="?", choices=("0", "1"), default="1")
    return parser


def _rank(text: str) -> int | None:
    """A rank that is given and empty is none: `make logs` passes what it was given."""
    if text == "":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"RANK is {text!r}; it is a number from 0 on")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"PORT is {text!r}; it is a number from 1 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
