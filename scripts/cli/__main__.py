"""The `slipway` command; the Makefile runs it as `python -m scripts.cli up --stack=dev`.

It imports only click, so that help and completion work before a Python environment exists.
"""

import os
from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import CompletionItem

from core.paths import project_dir


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def slipway() -> None:
    """Train the PyTorch jobs declared in this folder's stack file on Kubernetes.

    In an empty folder, run `slipway init`, then `slipway up`. `slipway down` removes everything.
    """


def _perform(command: str, function: str, **arguments: Any) -> None:
    """Run a command; an installed package first restarts in its own Python environment."""
    enter: Callable[[], None] | None = click.get_current_context().find_root().obj
    if enter is not None:
        enter()
    raise SystemExit(resolve_name("scripts.cli.calls:call")(command, function, arguments))


class _Run(click.Command):
    """A command whose parameter `args` gets everything after --args."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        cut = [*args, "--args"].index("--args")
        context.params["args"] = args[cut + 1 :]
        return super().parse_args(context, args[:cut])


def _stacks(_context: object, _parameter: object, begun: str) -> list[CompletionItem]:
    names = (file.stem.removeprefix("Pulumi.") for file in project_dir().glob("Pulumi.*.yaml"))
    return [CompletionItem(name) for name in sorted(names) if name.startswith(begun)]


def _add(
    name: str, function: str, text: str, *params: click.Parameter, kind: Any = click.Command
) -> None:
    """Add a command; `function`, a name below `scripts`, is imported when the command is called."""
    call = partial(_perform, name, function)
    slipway.add_command(kind(name, params=[*params], callback=call, help=text))


_text, _argument = partial(click.Option, default=""), partial(click.Argument, default="")
# Not every shell expands ~ after an equals sign. As a Path, "" would be the current directory.
_path = partial(_text, callback=lambda _, __, path: os.path.expanduser(path))  # noqa: PTH111
_stack = partial(click.Option, ["--stack"], default="dev", show_default=True)
STACK = _stack(shell_complete=_stacks, help="Stack whose settings are in Pulumi.STACK.yaml.")
JOB, FILE = _argument(["job"]), _argument(["file"])
PROGRAM = _argument(["script"], default=".")
CLUSTER = click.Option(["--cluster"], help="Kind of cluster, such as embedded or kubeconfig.")
SCRIPT = click.Option(["--script"], help="Program: a Python file or a folder.")
RANKS = click.Option(["--ranks"], type=click.IntRange(min=1), help="Number of processes.")
BUILD = click.Option(["--build"], is_flag=True, help="Build the job's image from a Dockerfile.")
KEEP = _path(["--keep"], help="Copy the jobs' files into this directory first.")
DETACH = click.Option(["--detach"], is_flag=True, help="Return once the ranks are running.")
RANK = click.Option(["--rank"], type=click.IntRange(min=0), help="Only the rank with this number.")
FOLLOW = click.Option(["--follow"], type=click.Choice("01"), default="1", help="Follow the output.")
FORMAT = click.Option(["--format"], type=click.Choice(["text", "json"]), default="text")
TO = _path(["--to"], help="Path to write to; by default outputs/JOB/RUN or report.html.")
RUN = click.Option(["--run"], type=click.Choice(["succeeded"]), help="Use the last successful run.")
_port = partial(click.Option, ["--port"], type=click.IntRange(1, 2**16 - 1), show_default=True)
PORT, DEBUG_PORT = _port(default=5000), _port(default=5678)
WITH = _text(["--with", "other"], help="ID of the run to compare with.")
BRIEF = click.Option(["--brief"], is_flag=True, help="Print nothing if nothing is missing.")
WORKERS = click.Option(
    ["--workers"], type=click.IntRange(min=0), help="Workers in addition to rank 0; by default 1."
)
SET = click.Option(["--set", "settings"], multiple=True, help="Job setting as NAME=YAML.")
PYTHON = _path(["--python"], help="Python to run the ranks with; by default python3 on PATH.")
JUNIT = _path(["--junit"], help="Also write a JUnit XML report to this file.")

_add("init", "cli.init:init", "Create a stack's file.", CLUSTER, SCRIPT, RANKS, BUILD, STACK)
_add("up", "cli.commands:up", "Create or update the stack and run its jobs.", DETACH, STACK)
_add("preview", "cli.commands:preview", "Show what `up` would change.", JOB, STACK)
_add("down", "cli.down:down", "Destroy the stack and leave nothing behind.", KEEP, STACK)
_add("rerun", "cli.commands:rerun", "Run a job again even if it is unchanged.", JOB, STACK)
_add("wait", "cli.runs.detached:wait", "Follow a detached run until it finishes.", JOB, STACK)
_add("logs", "cli.runs.logs:show", "Show a job's output.", JOB, RANK, FOLLOW, STACK)
_add("stacks", "cli.runs.inside:stacks", "Show each rank's call stack.", JOB, RANK, STACK)
_add("shell", "cli.runs.inside:shell", "Open a shell in a rank's container.", JOB, RANK, STACK)
_add("debug", "cli.runs.inside:debug", "Connect a debugger to a rank.", JOB, DEBUG_PORT, STACK)
_add("results", "cli.runs.results:show", "Show the last result of each job.", JOB, FORMAT, STACK)
_add("fetch", "cli.runs.fetch:fetch", "Copy a job's files to your disk.", JOB, TO, RUN, STACK)
_add("ui", "cli.ui:show", "Show where the runs are tracked.", JOB, PORT, STACK)
_add("report", "cli.runs.report:report", "Write a report about the jobs' runs.", JOB, TO, STACK)
_add("compare", "cli.runs.compare:compare", "Compare a run with others.", JOB, WITH, STACK)
_add("import", "cli.from_yaml:show", "Convert a PyTorchJob file to a job's settings.", FILE, STACK)
_add("local", "cli.local:run_job", "Run a job's ranks on this machine.", JOB, PYTHON, STACK)
_OF_RUN = "Run a script's ranks on this machine: … --args WORD …"
_add("run", "cli.local:run_script", _OF_RUN, PROGRAM, WORKERS, SET, PYTHON, kind=_Run)
_add("kubeconfig", "cli.kubeconfig:merge", "Add the cluster to your kubeconfig.", STACK)
_add("env", "cli.calls:print_environment", "Print the exports that Pulumi needs.")
_add("setup", "setup.provide:provide", "Install every tool that the stack needs.", BRIEF, STACK)
_add("smoke", "cli.calls:smoke", "Check a running stack.", JUNIT, STACK)

if __name__ == "__main__":
    slipway(prog_name="slipway")
