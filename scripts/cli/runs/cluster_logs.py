"""Find, fetch and follow a job's logs in its cluster."""

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from kubernetes.config import ConfigException

from core.kube import REQUEST_ERRORS, api_message
from jobs.api.client import JobApi
from jobs.api.follower import Container, Follower
from jobs.api.lines import Cursor
from jobs.model import pytorchjob
from jobs.model.pytorchjob import Topology, run_of
from jobs.observe.replica import containers, starts_in
from jobs.records import archive
from jobs.records.archive import Run
from jobs.records.recording import Recording
from scripts.cli.config import require_job
from scripts.cli.runs.logs import Printer, Target, kept_topology, names_of, print_runs
from scripts.cli.state import StackState
from scripts.cli.terminal import CommandError

_FETCH_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
"""Time limit for retries if a cluster is not responding; short, as logs may be in the archive."""
_POLL_SECONDS = 1.0


def show(target: Target, api: JobApi, printer: Printer, stack: str, *, follow: bool) -> None:
    """Print a job's logs from the archive and its pods; with `follow`, until its run has ended.

    Raises `CommandError` if not all lines could be kept, or one of the `REQUEST_ERRORS`.
    """
    mine = archive.of_job(stack, target.name).run(target.run_id or "run")
    runs, cursors = target.runs, dict[str, Cursor]()
    newest: str | None = None
    ended_at: float | None = None

    def behind(container: Container) -> Cursor:
        if newest is None:
            return mine.log(container.replica, container.id).cursor()
        return replace(cursors.get(container.id, Cursor()))

    while True:
        # In this order, so that logs read after the run has finished are complete.
        job, replicas = api.get(), containers(api.pods(), target.topology, target.run_id)
        current = [each for each in replicas if each.replica in target.names]
        if job is None or pytorchjob.has_ended(job) or run_of(job) != target.run_id:
            ended_at = time.monotonic() if ended_at is None else ended_at
        running = [printer.names[each.replica] for each in current if not each.ended]
        # Pods may outlive the run: `up` stops them within 30 s.
        is_late = ended_at is not None and time.monotonic() - ended_at > 45.0
        is_last = not follow or (ended_at is not None and (not running or is_late))
        if not current and not is_last and newest is None:
            printer.note(f"no rank of {target.name} has started yet")
        # Private to the user, and on disk, since a log may not fit in memory.
        with TemporaryDirectory(prefix="slipway-logs-") as spool:
            fetched = Run(Path(spool) / mine.id)
            trouble = list[str]()
            with Recording(fetched, target.topology, trouble.append, start=behind) as recording:
                follower = Follower(api, recording, starts_in)
                if not follower.finish(current, _FETCH_SECONDS):
                    why = f": {follower.last_error}" if follower.last_error else ""
                    printer.note(f"not all logs were read within {_FETCH_SECONDS:g} s{why}")
            # Every rank's log has been read up to the timestamp of the previous round's last line.
            until = None if is_last or len(target.names) == 1 else newest
            # If `up` is waiting on this machine, it archives a deleted pod's last lines.
            rest = [mine] if is_last and newest is not None else []
            print_runs(printer, [*runs, *rest, fetched], cursors, until)
            if trouble:
                raise CommandError(f"Lines are missing; set TMPDIR to a larger disk: {trouble[0]}")
            stamps = [log.cursor().stamp or "" for log in fetched.logs()]
            newest, runs = max([newest or "", *stamps]), ()
        if is_last:
            break
        # Listing a thousand pods takes a while.
        time.sleep(max(_POLL_SECONDS, len(target.names) / 100))
    if follow and running:
        printer.note(f"the run has finished, but these are still running: {', '.join(running)}")


def find(
    stack: str, state: StackState, job: str, rank: int | None, declared_jobs: Collection[str] = ()
) -> Target:
    """Return where to find the logs of a job's ranks or of one `rank` (a worker if elastic)."""
    kept = archive.of_job(stack, job).runs() if job else []
    declared = state.jobs.get(job)
    namespace = state.namespace if declared is None else declared.namespace
    submitted, trouble = None, ""
    if job and state.kubeconfig is not None and namespace is not None:
        try:
            api = JobApi.connect(state.kubeconfig, namespace, job)
            submitted = api.retrying(_ANSWER_SECONDS).get()
        except (*REQUEST_ERRORS, ConfigException) as error:
            trouble = api_message(error)
    topology = Topology.of_object(submitted) if submitted is not None else kept_topology(kept)
    if topology is None:
        raise CommandError(_nothing(stack, state, job, trouble, declared_jobs))
    names = names_of(job, topology, rank)
    if submitted is None:
        return Target(job, topology, kept, names)
    run_id = run_of(submitted)
    if run_id is not None and run_id not in {run.id for run in kept}:
        kept = []  # from an earlier run, which another machine has since replaced
    return Target(job, topology, kept, names, api, run_id)


def _nothing(
    stack: str, state: StackState, job: str, trouble: str, declared_jobs: Collection[str]
) -> str:
    """Explain why a job has no logs, and what to do; raise if the job does not exist."""
    names = {*state.jobs, *archive.jobs(stack), *declared_jobs}
    no_cluster = f" Stack {stack} has no cluster; `make up STACK={stack}` creates one."
    require_job(stack, job, names, no_cluster if state.kubeconfig is None else "")
    if trouble:
        return f"{job} has no logs on this machine, and its cluster can't be used: {trouble}"
    declared = state.jobs.get(job)
    if declared is None or declared.result is None:
        return f"Job {job} has not been submitted yet; see `make results STACK={stack}`."
    return (
        f"The PyTorchJob {job} was deleted, and its logs are not on this machine but on the one "
        f"that ran `make up`. `make results JOB={job} STACK={stack}` shows the job's result."
    )
