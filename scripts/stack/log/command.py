"""`make logs JOB=… RANK=…`: what a job's ranks print and have printed, also when they are gone."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kubernetes.client.exceptions import ApiException

from jobs.api import Unreachable, said
from scripts.stack.asked import asked
from scripts.stack.exported import read_state
from scripts.stack.log.lines import printer
from scripts.stack.log.target import NoLogs, find
from scripts.stack.log.view import View
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


def show(
    stack: str, job: str, options: Options, read: Callable[[str], StackState] = read_state
) -> int:
    """Print the logs of a job, and go on while it runs.

    Args:
        stack: Its name.
        job: The job's name.
        options: What to show.
        read: Returns the stack's state.

    Returns:
        The exit status: 0.

    Raises:
        NoLogs: the stack has no such job or rank, or its logs can't be had.
        PulumiFailed: the stack's state can't be read.
    """
    try:
        settings = asked(stack)
        wanted = [] if settings is None else [each.name for each in settings.jobs]
        target = find(stack, read(stack), job, options.rank, wanted)
        names = {replica: target.label(replica) for replica in target.replicas}
        printing = printer(names, raw=options.rank is not None)
        with tempfile.TemporaryDirectory(prefix="slipway-logs-") as spool:  # only its owner's
            View(target, printing, Path(spool)).run(follow=options.follow)
        if not printing.has_printed:
            results = f"make results JOB={job} STACK={stack}"
            printing.tell(f"nothing was printed; `{results}` says how it ended")
    except KeyboardInterrupt:
        pass  # To stop looking is no failure.
    except (ApiException, Unreachable) as error:
        raise NoLogs(f"The API server of {stack} does not show the logs: {said(error)}") from error
    return 0
