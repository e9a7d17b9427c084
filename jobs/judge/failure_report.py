"""Describes why a run did not succeed, and what to do about it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.judge.exits import Exit, FailedInit
from jobs.judge.first_failure import Failure
from jobs.judge.outcome import artifacts
from jobs.judge.replica import Replica
from jobs.result import End, FailureDetails

LOG_LINES = 30
_EVENTS = 10


@dataclass(frozen=True)
class Evidence:
    """What is known of a run that did not succeed.

    Args:
        log: The last lines of the log that matters: of the replica that failed or did not answer
            its peers, or of replica 0.
        before: The same of the container that failed before in that replica, if one did.
        followers: How many other replicas failed after it.
        silent: Those that went on while all others failed for want of a peer.
        stacks: Where ranks stood when they were stopped, innermost frame first.
        events: Kubernetes events about the job and its pods.
        failed_init: The init container that kept a replica from beginning, if one did.
    """

    log: Sequence[str]
    events: Iterable[Mapping[str, Any]]
    before: Sequence[str] = ()
    followers: int = 0
    silent: Sequence[Replica] = ()
    stacks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    failed_init: FailedInit | None = None


def details(
    end: End, cause: Failure | None, evidence: Evidence, disruption: str | None = None
) -> FailureDetails:
    """Return what is known of a run that did not succeed.

    Args:
        end: How it ended.
        cause: The failure that ended it, where it was one.
        evidence: What is known of it.
        disruption: What the cluster did that ended it, where a retry may cure that.
    """
    evicted = None if cause is None else cause.replica.evicted
    is_news = disruption is not None and (evicted is None or evicted not in disruption)
    return FailureDetails(
        **_who(cause, evidence),
        disruption=disruption if is_news else None,
        stacks=evidence.stacks or None,
        followers=evidence.followers or None,
        previous_log=list(evidence.before)[-LOG_LINES:] or None,
        log=list(evidence.log)[-LOG_LINES:],
        events=warnings(evidence.events)[-_EVENTS:],
        advice=_advice(end, cause, evidence, disruption),
    )


def warnings(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the warnings among `events`, each once, oldest first."""
    ordered = sorted(
        (event for event in events if event.get("type") == "Warning" and not _repeats(event)),
        key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""),
    )
    lines = [
        f"{event['involvedObject'].get('kind')} {event['involvedObject'].get('name')}: "
        f"{event.get('reason')}: {str(event.get('message', '')).strip()}"
        for event in ordered
    ]
    return list(dict.fromkeys(lines))


def _repeats(event: Mapping[str, Any]) -> bool:
    """Return whether an event of the operator repeats those of a pod."""
    # https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/pod.go, RecordAbnormalPods
    return str(event.get("message", "")).startswith("Error pod ")


def _who(cause: Failure | None, evidence: Evidence) -> dict[str, Any]:
    """Return what is known of the replica that failed, or that its peers waited for."""
    if len(evidence.silent) == 1:
        [silent] = evidence.silent
        return {"rank": silent.topology.first_rank(silent.number), "pod": silent.name}
    if cause is not None:
        limit = cause.replica.memory_limit if cause.exit.out_of_memory else None
        listed = artifacts(cause.exit.report or {})
        who = {"rank": cause.rank, "pod": cause.replica.name, **_how(cause.exit)}
        return {**who, "memory_limit": limit, "artifacts": listed}
    failed = evidence.failed_init
    if failed is None:
        return {}
    return {"pod": failed.pod, "container": failed.container, **_how(failed.exit)}


def _how(ended: Exit) -> dict[str, Any]:
    return {
        "exit_code": ended.code,
        "signal": ended.signal,
        "out_of_memory": ended.out_of_memory,
        "error": ended.error,
    }


def _advice(end: End, cause: Failure | None, evidence: Evidence, disruption: str | None) -> str:
    advice, failed = end.advice, cause or evidence.failed_init
    if disruption is not None:
        advice = "set `retries: 2`, so that it is submitted again automatically"
    elif evidence.silent:
        advice = "find out why that rank did not take part"
        if end.state == "TimedOut":
            advice += ", or raise the job's `timeout`"
    elif failed is not None and failed.exit.out_of_memory:
        advice = "raise the job's `memory`, or use smaller batches"
    elif cause is not None and cause.replica.evicted is not None:
        advice = "use less of what its node ran short of, or request more, such as `limits`"
    elif cause is not None and cause.exit.reason == "StartError":
        advice = "check that the image has the job's `command`"
    elif cause is not None and cause.exit.code == 0:
        advice = (
            "have every rank make the same number of steps and end with a barrier, and do not "
            "catch and drop errors"
        )
    elif cause is not None and "ModuleNotFoundError" in cause.exit.message:
        advice = "add the package to an image with `build` (docs/own-job.md#build)"
    return f"{advice}, then run `make up` again"
