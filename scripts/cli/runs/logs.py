"""`make logs JOB=… RANK=…`: the output of a job's ranks, even after their pods are deleted.

Lines are printed in chronological order, each prefixed with its rank.
"""

import heapq
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

import click
from rich.console import Console

from core.wording import as_typed
from jobs.api.lines import Cursor, Line
from jobs.model.pytorchjob import Topology
from jobs.records import archive
from jobs.records.archive import Log, Run
from scripts.cli.config import jobs_of
from scripts.cli.state import StackState, read_state
from scripts.cli.terminal import CommandError

if TYPE_CHECKING:  # the Kubernetes client takes a second to import
    from jobs.api.client import JobApi

_COLORS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "red")


@dataclass(frozen=True)
class Target:
    """A job and the replicas whose logs to show."""

    name: str
    topology: Topology
    runs: Sequence[Run]  # archived runs, oldest first
    names: Mapping[int, str]  # of the selected replicas
    api: "JobApi | None" = None  # None if the cluster is deleted, unresponsive or not needed
    run_id: str | None = None  # of the run in the cluster


def show(stack: str, job: str, rank: int | None, follow: str) -> int:
    """Print the log of one or all of a job's ranks; if `follow` is "1", until the run finishes."""
    with suppress(KeyboardInterrupt):  # not a failure
        target = archived(stack, read_state(stack, logs_of=job), job, rank)
        if target is None:
            with ThreadPoolExecutor() as pool:
                state = pool.submit(read_state, stack, secrets=True)
                # Importing the Kubernetes client takes a second, and so does the CLI, concurrently.
                from core.kube import REQUEST_ERRORS, api_message  # noqa: PLC0415
                from scripts.cli.runs import cluster_logs  # noqa: PLC0415

            target = cluster_logs.find(stack, state.result(), job, rank, jobs_of(stack))
        printer = Printer(target.names, raw=rank is not None)
        if target.api is None:
            print_runs(printer, target.runs, {})
        else:
            try:
                cluster_logs.show(target, target.api, printer, stack, follow=follow == "1")
            except REQUEST_ERRORS as error:
                why = f"The API server of {stack} did not return the logs: {api_message(error)}"
                raise CommandError(why) from error
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


def kept_topology(kept: Sequence[Run]) -> Topology | None:
    """Return the topology from the latest run that recorded one, or None if no run did."""
    return next((run.topology for run in reversed(kept) if run.topology is not None), None)


def names_of(job: str, topology: Topology, rank: int | None) -> dict[int, str]:
    """Return display names for all replicas, or for the one with `rank`, keyed by replica."""
    what, last = "worker" if topology.elastic else "rank", topology.world_size - 1
    if rank is not None and rank > last:
        span = f"It has only {what} 0" if last == 0 else f"It has {what}s 0 to {last}"
        raise CommandError(f"Job {job} has no {what} {rank}. {span}.")
    replicas = range(topology.replicas) if rank is None else [rank // topology.processes]
    return {
        each: f"{what} {each if topology.elastic else topology.span(each)}" for each in replicas
    }


@dataclass
class Printer:
    """Prints the replicas' log lines to `out`, and notes about them to stderr."""

    names: Mapping[int, str]  # replica labels, colored in a terminal
    raw: bool  # print only the lines, for programs to read
    out: TextIO = field(default_factory=lambda: sys.stdout)
    _containers: dict[int, str] = field(default_factory=dict)
    run: str | None = None  # of the latest line; None before the first line

    @cached_property
    def labels(self) -> Mapping[int, str]:
        """The prefix for each replica's lines, colored in a terminal."""
        width = max((len(name) for name in self.names.values()), default=0)
        colors = Console(file=self.out).color_system is not None and "NO_COLOR" not in os.environ
        labels = {}
        for replica, name in self.names.items():
            color = _COLORS[replica % len(_COLORS)] if colors else None
            label = click.style(f"[{name}]", color, reset=colors)
            labels[replica] = label + " " * (width - len(name) + 1)
        return labels

    def print(self, text: str, replica: int, run: str, container: str) -> None:
        """Print a line, preceded by a note if it is from a new run or a restarted container."""
        if self.run is not None and run != self.run:
            self._containers.clear()
            self.note(f"next attempt: {run}")
        self.run = run
        if self._containers.setdefault(replica, container) != container:
            self.note(f"{self.names[replica]} was restarted")
            self._containers[replica] = container
        if not self.raw:
            text = text.rstrip("\r").rpartition("\r")[2]  # a progress bar's last state
            # torch also prefixes its lines with the rank
            own = f"[{self.names[replica].replace(' ', '')}]:"
            text = f"{self.labels[replica]}{text.removeprefix(f'{own} ').removeprefix(own)}"
        self.out.write(f"{text}\n")

    def note(self, text: str) -> None:
        """Print a note between the log lines."""
        self.out.flush()
        print(f"--- {text}", file=sys.stderr, flush=True)


def print_runs(
    printer: Printer, runs: Sequence[Run], cursors: dict[str, Cursor], until: str | None = None
) -> None:
    """Print the logs of runs in chronological order up to the timestamp `until`.

    No line is printed twice: `cursors` are advanced to the last line printed from each container.
    If a run is both archived and fetched, pass the archived one first.
    """
    parts: dict[tuple[str, str], list[Log]] = {}
    for run in runs:
        for log in run.logs():
            if log.replica in printer.names:
                parts.setdefault((run.id, log.container), []).append(log)
    # All logs are open at once rather than in memory: a job may have a thousand.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError):  # macOS allows less than the limit it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def lines(
        run: str, container: str, logs: Sequence[Log]
    ) -> Iterator[tuple[Line, int, str, str]]:
        replica, cursor = logs[0].replica, cursors.setdefault(container, Cursor())
        if logs[0].is_cut and cursor.stamp is None:
            name = printer.names[replica]
            printer.note(f"{name}: the beginning of its log was dropped, as the log was too long")
        for log in logs:  # the archive may have grown since the fetch
            for batch in cursor.fresh([line] for line in log.lines()):
                yield from ((line, replica, run, container) for line in batch)

    logs_of_all = (lines(*which, logs) for which, logs in parts.items())
    in_order = heapq.merge(*logs_of_all, key=lambda entry: entry[0].stamp)
    for line, replica, run_id, container in in_order:
        if until is not None and line.stamp > until:
            break
        printer.print(line.text, replica, run_id, container)
    printer.out.flush()
