"""Makes a run's result of the job's status and the replicas' termination messages. Pure."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from jobs.judge.exits import Exit
from jobs.judge.replica import Replica
from jobs.result import End, FailureDetails, RunResult, State, TrainingReport
from jobs.spec.names import run_of
from jobs.topology import Topology, ranks_of

_KNOWN = frozenset(
    {
        *(each.name for each in fields(TrainingReport)),
        *("rank", "world_size", "samples_seen", "total_samples_seen", "duration_seconds"),
    }
)
"""What a summary says besides figures."""
_FROM_RANK_0 = tuple(each.name for each in fields(TrainingReport))


def result(  # noqa: PLR0913, PLR0917  # what was seen of a run, apart
    end: End,
    job: Mapping[str, Any],
    replicas: Mapping[int, Replica],
    failed: Mapping[int, Exit],
    seen_at: str,
    failure: FailureDetails | None = None,
) -> RunResult:
    """Return the result of a run that has come to its end.

    Args:
        end: How it ended, and why.
        job: The PyTorchJob, for the times of its start and completion.
        replicas: As far as their pods are known.
        failed: How replicas were seen to fail, also in pods that others have replaced since.
        seen_at: When the end was seen, ISO 8601; for a job that the operator did not complete.
        failure: What is known of one that did not succeed.
    """
    topology = Topology.of(job)
    ends = {
        number: _deciding_exit(replica, end.state) or failed.get(number)
        for number, replica in replicas.items()
    }
    summaries = {
        number: message
        for number, ended in ends.items()
        if ended is not None and ended.code == 0 and (message := ended.report) is not None
    }
    first = _of_rank_0(summaries, topology)
    status = job.get("status") or {}
    started = status.get("startTime") or job["metadata"].get("creationTimestamp")
    completed = status.get("completionTime") or seen_at
    reported = {name: first.get(name) for name in _FROM_RANK_0}
    reported |= {
        "accuracy": _number(first.get("accuracy")),
        "artifacts": artifacts(first),
        "metrics": _metrics(first) or None,
    }
    codes = {
        _key(number, topology): ended.code for number, ended in ends.items() if ended is not None
    }
    return RunResult(
        **reported,
        state=end.state,
        reason=end.reason,
        run_id=run_of(job),
        world_size=topology.world_size,
        samples_seen=_samples_seen(first, summaries, topology),
        training_seconds=first.get("duration_seconds"),
        duration_seconds=_seconds(started, completed),
        started=started,
        completed=completed,
        image=next((each.image for each in replicas.values() if each.image), None),
        exit_codes=codes,
        restarts=sum(replica.restarts for replica in replicas.values()),
        failure=failure,
    )


def _of_rank_0(summaries: Mapping[int, Mapping[str, Any]], topology: Topology) -> Mapping[str, Any]:
    """Return what rank 0 left behind: in an elastic job any replica may have been it at last."""
    if not topology.elastic:
        return summaries.get(0, {})
    return next((message for message in summaries.values() if message.get("rank") == 0), {})


def _samples_seen(
    first: Mapping[str, Any], summaries: Mapping[int, Mapping[str, Any]], topology: Topology
) -> int | None:
    """Return how many samples all ranks trained on, None when a replica did not report it.

    The replicas of an elastic job may have changed on the way, so for those the ledger counts.
    """
    if topology.elastic:
        total = first.get("total_samples_seen")
        return total if isinstance(total, int) else None
    counts = [each.get("samples_seen") for each in summaries.values()]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == topology.replicas else None


def _number(value: object) -> float | None:
    """Return a figure that a user's program reported; None when it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _metrics(message: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that a program names itself: in `metrics`, or beside what is known."""
    own = message.get("metrics")
    named = {key: message[key] for key in message if key not in _KNOWN}
    every = {**named, **(own if isinstance(own, dict) else {})}
    return {key: value for key, text in every.items() if (value := _number(text)) is not None}


def artifacts(message: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the files that a termination message lists with what inputs need; None without any."""
    listed = message.get("artifacts")
    found = {
        name: each
        for name, each in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(each, dict) and all(isinstance(each.get(k), str) for k in ("url", "sha256"))
    }
    return found or None


def _key(number: int, topology: Topology) -> str:
    """Return the key of a replica's exit code: its rank, or the first and the last of several."""
    ranks = ranks_of(number, topology.processes)
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def _deciding_exit(replica: Replica, state: State) -> Exit | None:
    """Return how a replica ended; where the run failed, its first failure, not what followed."""
    exits = replica.exits
    failures = [ended for ended in exits if ended.code != 0]
    if state != "Succeeded" and failures:
        return failures[0]
    return exits[-1] if exits else None


def _seconds(started: str, completed: str) -> float:
    return (datetime.fromisoformat(completed) - datetime.fromisoformat(started)).total_seconds()


def refused(reason: str, job: Mapping[str, Any]) -> RunResult:
    """Return the result of a job that the API server or the operator's webhook did not admit."""
    return RunResult(
        state="CannotStart",
        reason=f"refused: {reason}",
        world_size=Topology.of(job).world_size,
        exit_codes={},
    )
