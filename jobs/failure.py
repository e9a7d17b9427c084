"""Why a run ended without success, as a person wants to read it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.ranks import Exit
from jobs.results import summary
from jobs.spec import CONTAINER
from jobs.tracker import End, Failure

LOG_LINES = 30
_EVENTS = 10


def details(
    end: End,
    failures: Sequence[Failure],
    log: Sequence[str],
    events: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return what a result tells about a run that did not succeed.

    Args:
        end: How it ended.
        failures: The ranks that failed, the first one first.
        log: The last lines of the log that matters: of the first rank that failed, or of rank 0.
        events: Kubernetes events about the job and its pods.
    """
    first = failures[0] if failures else None
    return {
        **({} if first is None else _of_rank(first)),
        "log": list(log)[-LOG_LINES:],
        "events": warnings(events)[-_EVENTS:],
        "advice": _advice(end, first),
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
    # https://github.com/kubeflow/trainer/blob/v1.9.3/pkg/core/pod.go, RecordAbnormalPods
    return str(event.get("message", "")).startswith("Error pod ")


def error(ended: Exit) -> str | None:
    """Return what the program itself said of its failure in its termination message."""
    message = summary(ended)
    if message is not None:
        return str(message["error"]) if "error" in message else None
    # StartError: the runtime's words. Otherwise it is the end of the log, shown as such.
    return ended.message.strip() or None if ended.reason == "StartError" else None


def explain(name: str, result: Mapping[str, Any]) -> str:
    """Return the whole story of a result that is no success, in several lines."""
    told = result.get("failure") or {}
    lines = [f"job {name} ended {result['state']}: {result['reason']}"]
    if told.get("error"):
        lines.append(f"its error: {told['error']}")
    if told.get("memory_limit") and told.get("out_of_memory"):
        lines.append(f"its memory limit: {told['memory_limit']}")
    if told.get("log"):
        of = f"rank {told['rank']}'s" if "rank" in told else "rank 0's"
        lines += [f"the end of {of} log:", *(f"    {line}" for line in told["log"])]
    if told.get("events"):
        lines += ["warning events:", *(f"    {event}" for event in told["events"])]
    if told.get("advice"):
        lines.append(f"what to do: {told['advice']}")
    return "\n".join(lines)


def _of_rank(first: Failure) -> dict[str, Any]:
    """Return what is known of the rank that failed; what is not is left out."""
    containers = first.rank.pod["spec"]["containers"]
    container = next(each for each in containers if each["name"] == CONTAINER)
    told = {
        "rank": first.rank.number,
        "pod": first.rank.name,
        "exit_code": first.exit.code,
        "signal": first.exit.signal,
        "out_of_memory": first.exit.out_of_memory,
        "memory_limit": container.get("resources", {}).get("limits", {}).get("memory"),
        "error": error(first.exit),
    }
    return {key: value for key, value in told.items() if value is not None}


def _advice(end: End, first: Failure | None) -> str:
    advice = end.advice
    if first is not None and first.exit.out_of_memory:
        advice = "raise the job's `memory`, or lower its `batchSize`"
    elif first is not None and first.exit.reason == "StartError":
        advice = "see that the image has the job's `command`"
    return f"{advice}; then a plain `pulumi up` trains again"
