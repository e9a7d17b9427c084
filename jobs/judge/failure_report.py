"""Describes why a run did not succeed, and what to do about it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.judge.outcome import artifacts
from jobs.judge.replica import Replica
from jobs.judge.run_state import RunState
from jobs.result import End, FailureDetails

LOG_LINES = 30
_EVENTS = 10
_REPEATS = "Error pod "
"""How an event of the operator begins that repeats those of a pod.

https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/pod.go, RecordAbnormalPods
"""


@dataclass(frozen=True)
class Evidence:
    """What logs and events show of a run that did not succeed.

    Args:
        log: The last lines of the log that matters: of the replica that failed or did not answer
            its peers, or of replica 0.
        events: Kubernetes events about the job and its pods.
        before: As `log`, of the container that failed before in that replica, if one did.
        silent: Those that went on while all others failed for want of a peer.
        stacks: Where ranks stood when they were stopped, innermost frame first.
    """

    log: Sequence[str]
    events: Iterable[Mapping[str, Any]]
    before: Sequence[str] = ()
    silent: Sequence[Replica] = ()
    stacks: Mapping[str, Sequence[str]] = field(default_factory=dict)


def details(end: End, run: RunState, evidence: Evidence) -> FailureDetails:
    """Return what is known of a run that did not succeed."""
    disruption, cause = run.cured_by_a_retry, run.cause
    evicted = None if cause is None else cause.replica.evicted
    is_news = disruption is not None and (evicted is None or evicted not in disruption)
    return FailureDetails(
        **_who(run, evidence.silent or run.idle),
        disruption=disruption if is_news else None,
        stacks=evidence.stacks or None,
        followers=run.followers or None,
        previous_log=list(evidence.before)[-LOG_LINES:] or None,
        log=list(evidence.log)[-LOG_LINES:],
        events=warnings(evidence.events)[-_EVENTS:],
        advice=_advice(end, run, evidence.silent),
    )


def warnings(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the warnings among `events`, each once, oldest first."""
    ordered = sorted(
        (event for event in events if event.get("type") == "Warning"),
        key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""),
    )
    lines = [
        f"{event['involvedObject'].get('kind')} {event['involvedObject'].get('name')}: "
        f"{event.get('reason')}: {str(event.get('message', '')).strip()}"
        for event in ordered
        if not str(event.get("message", "")).startswith(_REPEATS)
    ]
    return list(dict.fromkeys(lines))


def _who(run: RunState, silent: Sequence[Replica]) -> dict[str, Any]:
    """Return what is known of the replica that failed, or that its peers waited for."""
    if len(silent) == 1:
        [one] = silent
        return {"rank": one.topology.first_rank(one.number), "pod": one.name}
    failed = run.cause or run.failed_init
    if failed is None:
        return {}
    known = {
        "pod": failed.replica.name,
        "exit_code": failed.exit.code,
        "signal": failed.exit.signal,
        "out_of_memory": failed.exit.out_of_memory,
        "error": failed.exit.error,
    }
    if run.cause is None:
        return {**known, "container": failed.container}
    limit = failed.replica.memory_limit if failed.exit.out_of_memory else None
    listed = artifacts(failed.exit.report or {})
    return {**known, "rank": failed.rank, "memory_limit": limit, "artifacts": listed}


def _advice(end: End, run: RunState, silent: Sequence[Replica]) -> str:
    cause, failed, advice = run.cause, run.cause or run.failed_init, end.advice
    if run.cured_by_a_retry is not None:
        advice = "set `retries: 2`, so that it is submitted again automatically"
    elif silent:
        raised = ", or raise the job's `timeout`" if end.state == "TimedOut" else ""
        advice = f"find out why that rank did not take part{raised}"
    elif failed is not None and failed.exit.out_of_memory:
        advice = "raise the job's `memory`, or use smaller batches"
    elif cause is None:
        pass
    elif cause.replica.evicted is not None:
        advice = "use less of what its node ran short of, or request more, such as `limits`"
    elif cause.exit.reason == "StartError":
        advice = "check that the image has the job's `command`"
    elif cause.exit.code == 0:
        advice = (
            "have every rank make the same number of steps and end with a barrier, and do not "
            "catch and drop errors"
        )
    elif "ModuleNotFoundError" in cause.exit.message:
        advice = "add the package to an image with `build` (docs/own-job.md#build)"
    return f"{advice}, then run `make up` again"
