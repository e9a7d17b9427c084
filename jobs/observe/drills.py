"""Find the outcome of a job's `drill` in its run's logs."""

from collections.abc import Sequence
from typing import Any

from jobs.api.lines import moment
from jobs.model.parts import Drill
from jobs.records.archive import Log, Run
from jobs.records.events import Event, events_of
from slipway.drill import step_of

_KINDS = ("step", "metrics", "resumed", "drilled")


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
    events = events_of(log, _KINDS)
    # Any program may print JSON.
    return [each for each in events if moment(str(each.get("time"))).tzinfo is not None]
