"""`make logs JOB=… RANK=…`: what a job's ranks print and have printed, also when they are gone."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts.stack.backend import exists
from scripts.stack.cli import Cli
from scripts.stack.log_lines import printer
from scripts.stack.log_target import find
from scripts.stack.log_view import View
from scripts.stack.state import StackState


@dataclass(frozen=True)
class Options:
    """What to show.

    Args:
        rank: Of which rank; None for all.
        follow: Whether to go on until the run has ended.
    """

    rank: int | None = None
    follow: bool = True


def show(cli: Cli, job: str, options: Options) -> int:
    """Print the logs of a job, and go on while it runs.

    Args:
        cli: Bound to the stack.
        job: The job's name.
        options: What to show.

    Returns:
        The exit status: 0.

    Raises:
        NoLogs: the stack has no such job or rank, or there are no logs of it.
        PulumiFailed: the stack's state can't be read.
        ApiException: the API server refuses to show them.
        Unreachable: the API server went away.
    """
    state = StackState()
    if exists(cli.stack):
        state = StackState.of(json.loads(cli.ask("stack", "export", "--show-secrets")))
    return show_from(cli.stack, state, job, options)


def show_from(stack: str, state: StackState, job: str, options: Options) -> int:
    """See `show`; of a stack whose state was read already."""
    target = find(stack, state, job, options.rank)
    names = {replica: target.label(replica) for replica in target.replicas}
    printing = printer(names, raw=options.rank is not None)
    try:
        with tempfile.TemporaryDirectory(prefix="slipway-logs-") as spool:  # only its owner's
            View(target, printing, Path(spool)).run(follow=options.follow)
    except KeyboardInterrupt:
        pass  # To stop looking is no failure.
    return 0
