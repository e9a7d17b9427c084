"""The attempts at one run: a job that was disrupted or failed may be resubmitted.

The PyTorchJob records the earlier attempts, since the waiting process may be killed.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.api.lines import moment
from jobs.result import RunResult

LABEL = "slipway.dev/attempt"
"""The label with the number of a job's attempt, counted from 1."""
ANNOTATION = "slipway.dev/earlier-attempts"
SUCCEEDED = "slipway.dev/last-succeeded"
"""The annotation with the ID of the latest earlier run that succeeded, if known."""
_KEPT = ("run_id", "state", "started", "completed", "duration_seconds")

Attempt = dict[str, Any]
"""An attempt: `number`, `run_id`, `state`, `reason`, `started`, `completed`, `duration_seconds`."""


def earlier(job: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts recorded in a PyTorchJob, oldest first; its own is added for a retry."""
    return list(json.loads((job["metadata"].get("annotations") or {}).get(ANNOTATION, "[]")))


def last_succeeded(job: Mapping[str, Any]) -> str | None:
    """Return the ID of the latest run that succeeded before a PyTorchJob was created, if known."""
    return (job["metadata"].get("annotations") or {}).get(SUCCEEDED)


def curable(result: RunResult, retry_on: Collection[str]) -> str | None:
    """Return the reason why a run ended, or None if `retry_on` does not permit a retry."""
    disruption = None if result.failure is None else result.failure.disruption
    if disruption is not None:
        return disruption if "lostNode" in retry_on else None
    if result.state != "Failed" or "ownFailure" not in retry_on:
        return None
    error = None if result.failure is None else result.failure.error
    return result.reason if (error or "") in result.reason else f"{result.reason}: {error}"


def with_ended(before: Sequence[Attempt], result: RunResult, reason: str) -> list[Attempt]:
    """Return the attempts `before`, plus the one that ended with `result` for `reason`."""
    kept = {key: value for key in _KEPT if (value := getattr(result, key)) is not None}
    return [*before, {"number": len(before) + 1, **kept, "reason": reason[:500]}]


def complete(result: RunResult, before: Sequence[Attempt], succeeded: str | None) -> RunResult:
    """Return `result` plus the attempts before it, its goodput and the last run that succeeded."""
    last = None if result.succeeded else succeeded
    result = replace(result, attempts=before or None, last_succeeded=last)
    begun = next((each["started"] for each in before if "started" in each), result.started)
    if not result.succeeded or result.step_seconds is None or not (begun and result.completed):
        return result
    runs = {result.run_id, *(each.get("run_id") for each in before)}
    # Steps from a checkpoint count for the run that took them.
    useful = sum(seconds for run, seconds in result.step_seconds.items() if run in runs)
    total = (moment(result.completed) - moment(begun)).total_seconds()
    return replace(result, goodput=round(min(1.0, useful / total), 3)) if total > 0 else result


def annotations(before: Sequence[Attempt], succeeded: str | None = None) -> dict[str, str]:
    """Return the annotations that record a job's earlier attempts."""
    noted = {} if succeeded is None else {SUCCEEDED: succeeded}
    return noted | ({ANNOTATION: json.dumps(before, separators=(",", ":"))} if before else {})
