"""A run's result, from the job's status and the replicas' termination messages. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jobs.spec.names import run_of
from jobs.topology import Topology, ranks_of
from jobs.watch.replicas import Exit, Replica

State = Literal["Succeeded", "Failed", "TimedOut", "CannotStart"]
Result = dict[str, Any]


@dataclass(frozen=True)
class End:
    """How a run ended, why in one line, and what a person may do about it."""

    state: State
    reason: str
    advice: str = "fix what failed"


_FROM_RANK_0 = (
    "accuracy",
    "epoch_accuracies",
    "top5_accuracy",
    "class_accuracies",
    "loss",
    "backend",
    "dataset",
    "device",
    "device_name",
    "torch",
    "goal",
    "goal_reached",
    "time_to_accuracy_seconds",
    "reformations",
    "longest_pause_seconds",
    "artifacts",
)


def summary(ended: Exit | None) -> dict[str, Any] | None:
    """Return what a replica that ended left behind, None when that is no JSON object.

    Programs of one's own need not leave anything; a message may also be cut, or be the end of a
    log instead.
    """
    try:
        # NaN is no JSON, though Python writes it, and no figure that anything can be judged by.
        message = json.loads(ended.message, parse_constant=_no_number) if ended else None
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _no_number(_text: str) -> None:
    return None


def result(
    end: End,
    job: Mapping[str, Any],
    replicas: Mapping[int, Replica],
    failed: Mapping[int, Exit],
    seen_at: str,
) -> Result:
    """Return the result of a run that has come to its end; what is not known is left out.

    Args:
        end: How it ended, and why.
        job: The PyTorchJob, for the times of its start and completion.
        replicas: As far as their pods are known.
        failed: How replicas were seen to fail, also in pods that others have replaced since.
        seen_at: When the end was seen, ISO 8601; for a job that the operator did not complete.
    """
    topology = Topology.of(job)
    ends = {
        number: _telling_exit(replica, end.state) or failed.get(number)
        for number, replica in replicas.items()
    }
    summaries = {
        number: message
        for number, ended in ends.items()
        if ended is not None and ended.code == 0 and (message := summary(ended)) is not None
    }
    first = _of_rank_0(summaries, topology)
    status = job.get("status") or {}
    started = status.get("startTime") or job["metadata"].get("creationTimestamp")
    completed = status.get("completionTime") or seen_at
    found = {
        "state": end.state,
        "reason": end.reason,
        "run_id": run_of(job),
        "world_size": topology.world_size,
        **{key: first.get(key) for key in _FROM_RANK_0},
        "accuracy": _number(first.get("accuracy")),
        "artifacts": artifacts(first),
        "samples_seen": _samples_seen(first, summaries, topology),
        "training_seconds": first.get("duration_seconds"),
        "duration_seconds": _seconds(started, completed),
        "started": started,
        "completed": completed,
        "image": next((each.image for each in replicas.values() if each.image), None),
        "exit_codes": {
            _key(number, topology): ended.code
            for number, ended in ends.items()
            if ended is not None
        },
        "restarts": sum(replica.restarts for replica in replicas.values()),
    }
    # The engine drops what is null; here it would differ before and after.
    return {key: value for key, value in found.items() if value is not None}


def _of_rank_0(summaries: Mapping[int, Mapping[str, Any]], topology: Topology) -> Mapping[str, Any]:
    """Return what rank 0 left behind: in an elastic job any replica may have been it at last."""
    if not topology.elastic:
        return summaries.get(0, {})
    return next((message for message in summaries.values() if message.get("rank") == 0), {})


def _samples_seen(
    first: Mapping[str, Any], summaries: Mapping[int, Mapping[str, Any]], topology: Topology
) -> int | None:
    """Return how many samples all ranks trained on, None when a replica did not tell.

    The replicas of an elastic job may have changed on the way, so there the ledger tells.
    """
    if topology.elastic:
        total = first.get("total_samples_seen")
        return total if isinstance(total, int) else None
    counts = [each.get("samples_seen") for each in summaries.values()]
    told = [count for count in counts if isinstance(count, int)]
    return sum(told) if len(told) == topology.replicas else None


def _number(value: object) -> float | None:
    """Return a figure that a program of one's own told; None when it is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


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


def _telling_exit(replica: Replica, state: State) -> Exit | None:
    """Return how a replica ended; where the run failed, its first failure, not what followed."""
    exits = replica.exits
    failures = [ended for ended in exits if ended.code != 0]
    if state != "Succeeded" and failures:
        return failures[0]
    return exits[-1] if exits else None


def _seconds(started: str, completed: str) -> float:
    return (datetime.fromisoformat(completed) - datetime.fromisoformat(started)).total_seconds()


def refused(reason: str, job: Mapping[str, Any]) -> Result:
    """Return the result of a job that the API server or the operator's webhook did not admit."""
    return {
        "state": "CannotStart",
        "reason": f"refused: {reason}",
        "world_size": Topology.of(job).world_size,
        "exit_codes": {},
    }
