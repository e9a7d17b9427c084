"""`make logs JOB=… RANK=…`: what a job's ranks print and have printed, also when they are gone."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jobs.logs import archive
from jobs.logs.archive import Log, Run
from jobs.logs.lines import Cursor, Line
from jobs.topology import Topology, ranks_of
from scripts.cli import CommandError
from scripts.cli.config import check, jobs_of
from scripts.cli.logs.lines import LogLine, Printer, joined, merged, printer
from scripts.cli.state import StackState, read_state

if TYPE_CHECKING:  # Kubernetes' client takes a second to import.
    from jobs.api import JobApi


class NoLogs(CommandError):
    """No logs match; the text lists what exists."""


@dataclass(frozen=True)
class Target:
    """A job whose logs are to be shown.

    Args:
        name: Its name.
        topology: What it consists of.
        runs: What is kept of it here, the oldest first.
        replicas: Whose logs; the numbers.
        api: Its cluster; None when it is gone, does not answer, or is not needed.
        run_id: Of the run that is in its cluster.
    """

    name: str
    topology: Topology
    runs: Sequence[Run]
    replicas: Sequence[int]
    api: JobApi | None = None
    run_id: str | None = None

    def label(self, replica: int) -> str:
        """Return what a replica's lines begin with: the replicas of an elastic job have no rank."""
        if self.topology.elastic:
            return f"worker {replica}"
        ranks = ranks_of(replica, self.topology.processes)
        return f"rank {ranks[0]}" + (f"-{ranks[-1]}" if len(ranks) > 1 else "")


def show(stack: str, job: str, rank: int | None, *, follow: bool) -> int:
    """Print the logs of a job of a stack; see `print_logs`.

    Returns:
        The exit status: 0.

    Raises:
        StackFileError: the stack does not exist.
    """
    check(stack)
    with suppress(KeyboardInterrupt):  # To stop looking is no failure.
        print_logs(stack, job, rank, follow=follow)
    return 0


def print_logs(
    stack: str,
    job: str,
    rank: int | None = None,
    *,
    follow: bool = True,
    read: Callable[..., StackState] = read_state,
) -> None:
    """Print the logs of a job.

    Args:
        stack: Its name.
        job: The job's name.
        rank: Of which rank; None for all.
        follow: Whether to go on until the run has ended.
        read: Returns the stack's state: `read_state`.

    Raises:
        NoLogs: the stack has no such job or rank, or its logs can't be had.
        core.process.CommandFailed: the stack's state can't be read.
    """
    target = archived(stack, read(stack), job, rank)
    if target is not None:
        with shown(target, stack, raw=rank is not None) as view:
            view.print()
        return
    with ThreadPoolExecutor() as pool:
        state = pool.submit(read, stack, secrets=True)
        # Kubernetes' client takes a second to import, and the CLI another one.
        from scripts.cli.logs import cluster  # noqa: PLC0415

    target = cluster.find(stack, state.result(), job, rank, jobs_of(stack))
    with shown(target, stack, raw=rank is not None) as view:
        cluster.show(view, stack, follow=follow)


def archived(stack: str, state: StackState, job: str, rank: int | None) -> Target | None:
    """Return the logs of a job's rank, or of all, where its run has ended and all of it is kept.

    None where the cluster is needed.

    Raises:
        NoLogs: the job has no such rank.
    """
    declared = state.jobs.get(job)
    if declared is None or declared.operation is not None or declared.result is None:
        return None
    runs = archive.of_job(stack, job).runs()
    topology = kept_topology(runs)
    latest = declared.result.get("run_id")
    if topology is None or runs[-1].id != latest or not all(run.is_complete for run in runs):
        return None
    return Target(job, topology, runs, replicas_of(job, topology, rank))


def kept_topology(kept: Sequence[Run]) -> Topology | None:
    """Return what the latest of some runs consists of; None when that was not written."""
    topologies = [run.topology for run in kept]
    return next((each for each in reversed(topologies) if each is not None), None)


def replicas_of(job: str, topology: Topology, rank: int | None) -> Sequence[int]:
    """Return the numbers of the replicas that have a rank, or of all."""
    if rank is None:
        return range(topology.replicas)
    if rank < topology.world_size:
        return [rank // topology.processes]
    what = "worker" if topology.elastic else "rank"
    last = topology.world_size - 1
    known = f"It has only {what} 0" if last == 0 else f"It has {what}s 0 to {last}"
    raise NoLogs(f"Job {job} has no {what} {rank}. {known}.")


@dataclass
class View:
    """Shows a job's logs.

    Args:
        target: Whose.
        printer: Where to.
        spool: A directory for what is fetched: a log may be larger than the memory.
        cursors: How far each container's log was printed, by its id.
    """

    target: Target
    printer: Printer
    spool: Path
    cursors: dict[str, Cursor] = field(default_factory=dict)

    def print(self, fetched: Run | None = None) -> None:
        """Print what is kept, and what was fetched besides."""
        for entry in merged(self._logs(fetched)):
            self.printer.print(entry)
        self.printer.out.flush()

    def kept(self, run_id: str) -> list[Log]:
        """Return what is kept of a run."""
        kept = [run for run in self.target.runs if run.id == run_id]
        return [log for run in kept for log in run.logs()]

    def _logs(self, fetched: Run | None) -> Iterator[Iterator[LogLine]]:
        """Yield each container's log, of all kept runs."""
        runs = {run.id: run for run in self.target.runs}
        if fetched is not None:
            runs[fetched.id] = fetched
        _allow_files(sum(len(run.logs()) for run in {*self.target.runs, *runs.values()}))
        for run_id, run in runs.items():
            kept = {log.path.name: log for log in self.kept(run_id)}
            more = {log.path.name: log for log in run.logs()} if run is fetched else {}
            for name in sorted(kept.keys() | more.keys()):
                log = kept.get(name) or more[name]
                if log.replica in self.target.replicas:
                    yield self._lines(run_id, log, more.get(name))

    def _lines(self, run_id: str, log: Log, more: Log | None) -> Iterator[LogLine]:
        if log.is_cut:
            name = self.printer.names[log.replica]
            self.printer.note(
                f"{name}: the beginning of its log was dropped, since it grew too long"
            )
        kept: Iterable[Line] = [] if log is more else log.lines()
        cursor = self.cursors.setdefault(log.container, Cursor())
        for line in joined(kept, [] if more is None else more.lines(), cursor):
            yield LogLine(line, log.replica, run_id, log.container)


@contextmanager
def shown(target: Target, stack: str, *, raw: bool) -> Iterator[View]:
    """Yield a view of a job's logs, and print a note when they turn out to be empty.

    Args:
        target: Whose.
        stack: The stack's name.
        raw: Whether to print the lines alone, so that a program can read them.
    """
    names = {replica: target.label(replica) for replica in target.replicas}
    printing = printer(names, raw=raw)
    with tempfile.TemporaryDirectory(prefix="slipway-logs-") as spool:  # only its owner's
        yield View(target, printing, Path(spool))
    if not printing.has_printed:
        results = f"make results JOB={target.name} STACK={stack}"
        printing.note(f"there is no output; `{results}` shows how the job ended")


def _allow_files(count: int) -> None:
    """Raise this process's limit of open files to the number of logs, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < limit:
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
