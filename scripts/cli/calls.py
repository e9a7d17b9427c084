"""Call a command's function with the environment, tools and lock that it needs; print errors."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from core import files
from core.paths import CHECKOUT
from core.process import CommandFailed
from core.toolchain import ToolMissing, tool
from core.wording import as_typed
from scripts.cli.backend import INTERRUPTED
from scripts.cli.terminal import CommandError, echo
from scripts.environment import applied, prepare, shell

_CHANGING = frozenset({"up", "preview", "rerun", "down"})


def call(command: str, function: str, arguments: Mapping[str, Any]) -> int:
    """Run a command and return its exit status, which is 1 if this function printed an error."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # as after Ctrl-C, no kubeconfig is left
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, signal.default_int_handler)
    try:
        target = f"scripts.{function}"
        # These commands find the stack's file themselves and run in the user's environment.
        if command in {"env", "import", "init", "local", "run", "setup"}:
            return int(resolve_name(target)(**arguments))
        return _on_stack(command, target, arguments)
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does; Python would print an error on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # For these errors, the user sees only the message.
    except (CommandError, CommandFailed, ToolMissing, subprocess.SubprocessError, OSError) as error:
        text: str | None = str(error)
        if isinstance(error, OSError) and not isinstance(error, TimeoutError):
            text = files.unwritable(error)
        if text is None:
            raise
        echo(text)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _on_stack(command: str, target: str, arguments: Mapping[str, Any]) -> int:
    stack = str(arguments["stack"])
    if command != "down":  # which works without the stack's file
        resolve_name("scripts.cli.config:check")(stack)
    if command in {"up", "preview", "rerun", "kubeconfig", "smoke"}:
        tools = resolve_name("scripts.setup.provide:provide")
        if code := tools(stack, brief=True, preview=command == "preview"):
            return int(code)
    variables, backend = applied(os.environ), "PULUMI_BACKEND_URL"
    if command == "up" and not os.environ.get(backend, "file:").startswith("file:"):
        echo(f"{backend} is ignored; to share a stack, set XDG_STATE_HOME (docs/runs.md).")
    os.environ.clear()
    typed = as_typed(f"make {command} STACK={stack}")
    os.environ.update({**variables, files.COMMAND_VARIABLE: typed})
    alone = resolve_name("scripts.cli.recovery:alone") if command in _CHANGING else None
    with nullcontext() if alone is None else alone(stack, waits=command == "up"):
        return int(resolve_name(target)(**arguments))


def print_environment() -> int:
    """Print shell commands that set the environment variables for using Pulumi directly."""
    tool("pulumi")  # raises if setup has not run
    prepare()
    print(shell(os.environ))
    return 0


def smoke(stack: str, junit: str) -> int:
    """Run the smoke checks on a running stack, in the Python environment for tests."""
    tests = resolve_name("scripts.setup.bootstrap:environment_for_tests")(Path(sys.prefix))
    # An installed package is read-only.
    options = ["-p", "no:cacheprovider", "tests/smoke", f"--stack={stack}"]
    options += [f"--junit-xml={Path(junit).absolute()}"] if junit else []
    command = [tests / "bin" / "python", "-B", "-m", "pytest", *options]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode
