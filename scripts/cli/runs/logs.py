"""`make logs JOB=… RANK=…`: the output of a job's ranks, even after their pods are deleted."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from core.wording import as_typed
from jobs.records import archive
from scripts.cli.config import jobs_of
from scripts.cli.runs.log_lines import Printer, Target, kept_topology, names_of, print_runs
from scripts.cli.state import StackState, read_state


def show(stack: str, job: str, rank: int | None, follow: str) -> int:
    """Print the log of one or all of a job's ranks; if `follow` is "1", until the run finishes."""
    with suppress(KeyboardInterrupt):  # not a failure
        target = archived(stack, read_state(stack, logs_of=job), job, rank)
        if target is None:
            with ThreadPoolExecutor() as pool:
                state = pool.submit(read_state, stack, secrets=True)
                # Importing the Kubernetes client takes a second, and so does the CLI, concurrently.
                from scripts.cli.runs import cluster_logs  # noqa: PLC0415

            target = cluster_logs.find(stack, state.result(), job, rank, jobs_of(stack))
        printer = Printer(target.names, raw=rank is not None)
        if target.api is None:
            print_runs(printer, target.runs, {})
        else:
            cluster_logs.show(target, target.api, printer, stack, follow=follow == "1")
        if printer.run is None:
            results = f"make results JOB={job} STACK={stack}"
            printer.note(as_typed(f"there is no output; `{results}` shows the job's result"))
    return 0


def archived(stack: str, state: StackState, job: str, rank: int | None) -> Target | None:
    """Return a job's archived logs if its run has finished, or None if the cluster is needed."""
    declared = state.jobs.get(job)
    if declared is None or declared.operation is not None or declared.result is None:
        return None
    runs = archive.of_job(stack, job).runs()
    topology = kept_topology(runs)
    latest = declared.result.run_id
    if topology is None or runs[-1].id != latest or not all(run.is_complete for run in runs):
        return None
    return Target(job, topology, runs, names_of(job, topology, rank))
