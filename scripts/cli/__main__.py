"""What the Makefile calls: python -m scripts.cli up dev."""

import argparse
import os
import sys
from contextlib import nullcontext
from pkgutil import resolve_name
from typing import Any

from core import files, toolchain
from core.process import CommandFailed
from scripts.cli.backend import INTERRUPTED
from scripts.cli.terminal import CommandError, echo
from scripts.environment import applied, prepare, shell

_COMMANDS = {
    "up": ("commands:up",),
    "preview": ("commands:preview",),
    "rerun": ("commands:rerun", "job"),
    "down": ("down:down", "keep"),
    "import": ("from_yaml:show", "file"),
    "kubeconfig": ("kubeconfig:merge",),
    "results": ("runs.results:show", "job", "format"),
    "logs": ("runs.logs:show", "job", "rank", "follow"),
    "fetch": ("runs.fetch:fetch", "job", "to", "run"),
    "ui": ("ui:show", "job", "port"),
    "report": ("runs.report:report", "job", "to"),
    "compare": ("runs.compare:compare", "job", "other"),
}
"""Each command's function, imported only when it is called, and its arguments after the stack."""
_LOCAL = {"local": "local:run_job", "run": "local:run_script"}
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
    except (CommandError, CommandFailed, toolchain.ToolMissing, OSError) as error:
        text = files.unwritable(error) if isinstance(error, OSError) else str(error)
        if text is None:
            raise
        echo(text)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(command: str, **arguments: object) -> int:
    if command == "env":
        toolchain.path("pulumi")  # raises before set-up has run
        prepare()
        print(shell(os.environ))
        return 0
    if command in _LOCAL:
        # In the user's own environment.
        return int(resolve_name(f"scripts.cli.{_LOCAL[command]}")(**arguments))
    variables = applied(os.environ)
    os.environ.clear()
    stack = str(arguments["stack"])
    os.environ.update({**variables, files.COMMAND_VARIABLE: f"make {command} STACK={stack}"})
    if command != "down":  # which does without the stack's file
        resolve_name("scripts.cli.config:check")(stack)
    lock = nullcontext()
    if command in _CHANGING:
        lock = resolve_name("scripts.cli.recovery:alone")(stack)
    with lock:
        code: int = resolve_name(f"scripts.cli.{_COMMANDS[command][0]}")(**arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.cli", description=__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    subcommands.add_parser("env", help="print the environment for a shell to evaluate")
    for name, first in (("local", ("stack", "job")), ("run", ("script",))):
        subcommand = subcommands.add_parser(name)
        for argument in first:
            subcommand.add_argument(argument)
        subcommand.add_argument("--python", default="", help="which Python runs the ranks")
    subcommand.add_argument("--set", action="append", default=[], dest="settings")
    subcommand.add_argument("--workers", action="append", dest="settings", type="workers={}".format)
    subcommand.add_argument("--args", nargs=argparse.REMAINDER, default=[])
    options: dict[str, dict[str, Any]] = {
        "format": {"choices": ("text", "json")},
        "to": {"nargs": "?", "default": ""},
        "keep": {"nargs": "?", "default": ""},
        "run": {"nargs": "?", "default": "", "choices": ("", "succeeded")},
        "port": {"type": _port},
        "other": {"nargs": "?", "default": ""},
        "rank": {"nargs": "?", "type": _rank},
        "follow": {"nargs": "?", "default": "1", "choices": ("0", "1")},
    }
    for name, (_, *arguments) in _COMMANDS.items():
        subcommand = subcommands.add_parser(name)
        for argument in ("stack", *arguments):
            subcommand.add_argument(argument, **options.get(argument, {}))
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
