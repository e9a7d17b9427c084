"""Which job's logs to show, and where they are: in its pods, in the archive, or in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobs.logs import archive
from jobs.logs.archive import Run
from jobs.topology import Topology, ranks_of
from scripts.cli import CommandError
from scripts.cli.state import StackState

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
