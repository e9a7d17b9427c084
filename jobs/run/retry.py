"""The attempts at one run: a job that was disrupted or failed may be resubmitted.

The PyTorchJob records the earlier attempts, since the waiting process may be killed. Their logs
show how the job recovered from a drill.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.api.lines import moment
from jobs.model.parts import Drill
from jobs.observe.verdict import REMOVED
from jobs.records.archive import Log, Run
from jobs.records.events import Event, events_of
from jobs.result import RunResult
from slipway.drill import step_of

LABEL = "slipway.dev/attempt"
"""The label with the number of a job's attempt, counted from 1."""
ANNOTATION = "slipway.dev/earlier-attempts"
SUCCEEDED = "slipway.dev/last-succeeded"
"""The annotation with the ID of the latest earlier run that succeeded, if known."""
_KEPT = ("run_id", "state", "started", "completed", "duration_seconds")
_OF_DRILLS = ("step", "metrics", "resumed", "drilled")
"""The kinds of events that show a drill and the recovery from it."""

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
    if result.reason == REMOVED.reason:
        return None  # whoever deletes the job wants the run to stop
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


def recovery(drill: Drill, runs: Sequence[Run], *, is_elastic: bool) -> dict[str, Any]:
    """Return the value of a result's `drill`, from the logs of `runs`, the job's attempts.

    Times are by the ranks' clocks. Ranks that outlive the killed one count only in an elastic job,
    because in other jobs they may still report the step during which they lost that rank.
    """
    logs = [_events(log) for run in runs for log in run.logs()]
    killed = next((each for log in logs for each in log if each["event"] == "drilled"), None)
    own = [each for log in logs for each in log if each.get("rank") == drill.rank]
    if killed is None or step_of({**killed, "event": "step"}) is None:
        steps = [step for each in own if (step := step_of(each)) is not None]
        return {"rank": drill.rank, **({"last_step": max(steps)} if steps else {})}
    at, step = moment(killed["time"]), killed["step"]
    others = [log for log in logs if log and killed not in log]
    others = [log for log in others if is_elastic or moment(log[0]["time"]) > at]
    later = [each for log in others for each in log if moment(each["time"]) > at]
    outcome: dict[str, Any] = {"rank": drill.rank, "step": step}
    times = [moment(each["time"]) for each in later if (step_of(each) or 0) > step]
    if times:
        resumed = [each.get("step", 0) for each in later if each["event"] == "resumed"]
        from_step = min(resumed, default=step if is_elastic else 0)
        outcome |= {
            "seconds": round((min(times) - at).total_seconds(), 1),
            "repeated_steps": max(0, step - from_step),
        }
    return outcome


def _events(log: Log) -> list[Event]:
    events = events_of(log, _OF_DRILLS)
    # Any program may print JSON.
    return [each for each in events if moment(str(each.get("time"))).tzinfo is not None]
