"""A run's result, from the job's status and the ranks' termination messages. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from jobs.ranks import Exit, Rank

State = Literal["Succeeded", "Failed", "TimedOut", "CannotStart"]
Result = dict[str, Any]

_FROM_RANK_0 = ("accuracy", "epoch_accuracies", "loss", "backend", "dataset")


def summary(ended: Exit | None) -> dict[str, Any] | None:
    """Return what a rank that ended left behind, None when that is no JSON object.

    Programs of one's own need not leave anything; a message may also be cut, or be the end of a
    log instead.
    """
    try:
        message = json.loads(ended.message) if ended is not None else None
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def result(
    state: State,
    reason: str,
    job: Mapping[str, Any],
    ranks: Mapping[int, Rank],
    seen_at: str,
) -> Result:
    """Return the result of a run that has come to its end; what is not known is left out.

    Args:
        state: How it ended.
        reason: Why, in one line.
        job: The PyTorchJob, for the times of its start and completion.
        ranks: As far as their pods are known.
        seen_at: When the end was seen, ISO 8601; for a job that the operator did not complete.
    """
    size = world_size(job)
    ends = {number: _telling_exit(rank, state) for number, rank in ranks.items()}
    summaries = {
        number: message
        for number, ended in ends.items()
        if ended is not None and ended.code == 0 and (message := summary(ended)) is not None
    }
    status = job.get("status") or {}
    started = status.get("startTime") or job["metadata"].get("creationTimestamp")
    completed = status.get("completionTime") or seen_at
    counts = [message["samples_seen"] for message in summaries.values() if _counts(message)]
    found = {
        "state": state,
        "reason": reason,
        "world_size": size,
        **{key: summaries.get(0, {}).get(key) for key in _FROM_RANK_0},
        "samples_seen": sum(counts) if len(counts) == size else None,
        "training_seconds": summaries.get(0, {}).get("duration_seconds"),
        "duration_seconds": _seconds(started, completed),
        "started": started,
        "completed": completed,
        "exit_codes": {
            str(number): ended.code for number, ended in ends.items() if ended is not None
        },
        "restarts": sum(rank.restarts for rank in ranks.values()),
    }
    # The engine drops what is null; here it would differ before and after.
    return {key: value for key, value in found.items() if value is not None}


def _telling_exit(rank: Rank, state: State) -> Exit | None:
    """Return how a rank ended; where the run failed, its first failure and not what followed."""
    exits = rank.exits
    failures = [ended for ended in exits if ended.code != 0]
    if state != "Succeeded" and failures:
        return failures[0]
    return exits[-1] if exits else None


def _counts(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("samples_seen"), int)


def _seconds(started: str, completed: str) -> float:
    return (datetime.fromisoformat(completed) - datetime.fromisoformat(started)).total_seconds()


def refused(reason: str, job: Mapping[str, Any]) -> Result:
    """Return the result of a job that the API server or the operator's webhook did not admit."""
    return {
        "state": "CannotStart",
        "reason": f"refused: {reason}",
        "world_size": world_size(job),
        "exit_codes": {},
    }


def world_size(job: Mapping[str, Any]) -> int:
    """Return how many ranks a PyTorchJob asks for."""
    replicas = job["spec"]["pytorchReplicaSpecs"].values()
    return sum(int(spec.get("replicas", 1)) for spec in replicas)
