"""`make logs JOB=… RANK=…`: what a job's ranks print and have printed, also when they are gone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from scripts.cli.exported import read_state
from scripts.cli.files import jobs_of
from scripts.cli.logs.target import archived
from scripts.cli.logs.view import Options, shown
from scripts.cli.state import StackState


def show(
    stack: str, job: str, options: Options, read: Callable[..., StackState] = read_state
) -> int:
    """Print the logs of a job, and go on while it runs.

    Args:
        stack: Its name.
        job: The job's name.
        options: What to show.
        read: Returns the stack's state: `read_state`.

    Returns:
        The exit status: 0.

    Raises:
        NoLogs: the stack has no such job or rank, or its logs can't be had.
        PulumiFailed: the stack's state can't be read.
    """
    try:
        target = archived(stack, read(stack), job, options.rank)
        if target is not None:
            with shown(target, stack, options) as view:
                view.print()
            return 0
        with ThreadPoolExecutor() as pool:
            state = pool.submit(read, stack, secrets=True)
            # Kubernetes' client takes a second to import, and the CLI another one.
            from scripts.cli.logs import cluster  # noqa: PLC0415

        cluster.show(stack, state.result(), job, options, jobs_of(stack))
    except KeyboardInterrupt:
        pass  # To stop looking is no failure.
    return 0
