"""The attempts at one run: a job that its cluster took away may be submitted anew.

The PyTorchJob itself records the attempts before it, so that they are not lost with the process
that waits.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.context import Context
from jobs.result import RunResult
from jobs.spec.names import run_of

LABEL = "slipway.dev/attempt"
"""The number of a job's attempt, from 1 on."""
ANNOTATION = "slipway.dev/earlier-attempts"
_KEPT = ("run_id", "state", "started", "completed", "duration_seconds")
_LONGEST_REASON = 500

Attempt = dict[str, Any]
"""`number`, `run_id`, `state`, `reason`, `started`, `completed`, `duration_seconds`."""


def earlier(job: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts before a PyTorchJob's, oldest first; of one that was lost itself, too."""
    text = (job["metadata"].get("annotations") or {}).get(ANNOTATION, "[]")
    try:
        attempts = json.loads(text)
    except ValueError:  # Another program has written it.
        return []
    return attempts if isinstance(attempts, list) else []


def lost(result: RunResult) -> str | None:
    """Return what the cluster did that ended a run, which a retry may cure; None otherwise."""
    return None if result.failure is None else result.failure.disruption


def with_lost(before: Sequence[Attempt], result: RunResult) -> list[Attempt]:
    """Return the attempts `before` and the one that ended with `result`, which its cluster lost."""
    kept = {key: value for key in _KEPT if (value := getattr(result, key)) is not None}
    reason = str(lost(result))[:_LONGEST_REASON]
    return [*before, {"number": len(before) + 1, **kept, "reason": reason}]


def is_closed(job: Mapping[str, Any]) -> bool:
    """Return whether a PyTorchJob is itself one of the attempts that are over.

    The operator may call it a success all the same: it judges by the Master alone.
    """
    run_id = run_of(job)
    return any(each.get("run_id") == run_id for each in earlier(job))


def labels(before: Sequence[Attempt]) -> dict[str, str]:
    """Return the labels of the job that follows the attempts `before`."""
    return {LABEL: str(len(before) + 1)}


def annotations(before: Sequence[Attempt]) -> dict[str, str]:
    """Return the annotations of a job with which its earlier attempts are remembered."""
    return {ANNOTATION: json.dumps(before, separators=(",", ":"))} if before else {}


@dataclass(frozen=True)
class AttemptContext:
    """A `Context` whose row names the attempt.

    Args:
        context: What it passes everything on to.
        number: Of the attempt, from 1 on.
        most: The largest number.
    """

    context: Context
    number: int
    most: int

    def __str__(self) -> str:
        """Name it."""
        return f"attempt {self.number} of {max(self.number, self.most)}"

    @property
    def urn(self) -> str:
        return self.context.urn

    @property
    def cancelled(self) -> threading.Event:
        return self.context.cancelled

    def status(self, message: str) -> None:
        self.context.status(f"{self}: {message}")

    def info(self, message: str) -> None:
        self.context.info(message)

    def warn(self, message: str) -> None:
        self.context.warn(message)
