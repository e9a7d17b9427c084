"""Why a run ended without success, as a person wants to read it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.spec import CONTAINER
from jobs.watch.causes import Failure
from jobs.watch.replicas import Exit, FailedInit, Replica
from jobs.watch.results import End, artifacts, summary

LOG_LINES = 30
_EVENTS = 10


@dataclass(frozen=True)
class Evidence:
    """What there is to show of a run that did not succeed.

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
) -> dict[str, Any]:
    """Return what a result tells about a run that did not succeed.

    Args:
        end: How it ended.
        cause: The failure that ended it, where it was one.
        evidence: What there is to show.
        disruption: What the cluster did that ended it, where a retry may cure that.
    """
    logs = {"previous_log": evidence.before, "log": evidence.log}
    evicted = None if cause is None else cause.replica.evicted
    is_news = disruption is not None and (evicted is None or evicted not in disruption)
    return {
        **_who(cause, evidence),
        **({"disruption": disruption} if is_news else {}),
        **({"stacks": evidence.stacks} if evidence.stacks else {}),
        **({"followers": evidence.followers} if evidence.followers else {}),
        **{key: list(log)[-LOG_LINES:] for key, log in logs.items() if log or key == "log"},
        "events": warnings(evidence.events)[-_EVENTS:],
        "advice": _advice(end, cause, evidence, disruption),
    }


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
    """Return whether it is the operator telling again what the events of a pod tell."""
    # https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/core/pod.go, RecordAbnormalPods
    return str(event.get("message", "")).startswith("Error pod ")


def error(ended: Exit) -> str | None:
    """Return what the program itself said of its failure in its termination message."""
    message = summary(ended)
    if message is not None:
        return str(message["error"]) if "error" in message else None
    # StartError: the runtime's words. Otherwise it is the end of the log, shown as such.
    return ended.message.strip() or None if ended.reason == "StartError" else None


def _of_init(failed: FailedInit | None) -> dict[str, Any]:
    if failed is None:
        return {}
    told = {"pod": failed.pod, "container": failed.container, **_of_exit(failed.exit)}
    return _known(told)


def _who(cause: Failure | None, evidence: Evidence) -> dict[str, Any]:
    """Return what is known of the replica that failed, or that its peers waited for in vain."""
    if len(evidence.silent) == 1:
        [silent] = evidence.silent
        return {"rank": silent.topology.first_rank(silent.number), "pod": silent.name}
    return _of_init(evidence.failed_init) if cause is None else _of_replica(cause)


def _of_replica(cause: Failure) -> dict[str, Any]:
    """Return what is known of the replica that failed; what is not is left out."""
    containers = cause.replica.pod["spec"]["containers"]
    container = next(each for each in containers if each["name"] == CONTAINER)
    limit = container.get("resources", {}).get("limits", {}).get("memory")
    told = {
        "rank": cause.rank,
        "pod": cause.replica.name,
        **_of_exit(cause.exit),
        "memory_limit": limit if cause.exit.out_of_memory else None,
        "artifacts": artifacts(summary(cause.exit) or {}),
    }
    return _known(told)


def _of_exit(ended: Exit) -> dict[str, Any]:
    return {
        "exit_code": ended.code,
        "signal": ended.signal,
        "out_of_memory": ended.out_of_memory,
        "error": error(ended),
    }


def _known(told: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if value is not None}


def _advice(end: End, cause: Failure | None, evidence: Evidence, disruption: str | None) -> str:
    advice, failed = end.advice, cause or evidence.failed_init
    if disruption is not None:
        advice = "nothing, or let it be tried again by itself with `retries: 2`"
    elif evidence.silent:
        advice = "find out what kept that rank from taking part"
        if end.state == "TimedOut":
            advice += ", or raise the job's `timeout`"
    elif failed is not None and failed.exit.out_of_memory:
        advice = "raise the job's `memory`, or use smaller batches"
    elif cause is not None and cause.replica.evicted is not None:
        advice = "use less of what its node ran short of, or ask for more, such as `limits`"
    elif cause is not None and cause.exit.reason == "StartError":
        advice = "see that the image has the job's `command`"
    elif cause is not None and cause.exit.code == 0:
        advice = (
            "let every rank make as many steps as the others and end behind a barrier, and let no "
            "error be caught and dropped"
        )
    elif cause is not None and "ModuleNotFoundError" in cause.exit.message:
        advice = "add the package to an image with `build` (docs/own-job.md#build)"
    return f"{advice}; then a plain `pulumi up` trains again"
