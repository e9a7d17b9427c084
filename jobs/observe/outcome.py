"""Makes a run's result, and says why it did not succeed and what to do about that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from jobs.api.lines import moment
from jobs.model.pytorchjob import Topology, run_of
from jobs.observe import pytorchjob
from jobs.observe.exits import Exit
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.records.events import figure, numbers
from jobs.result import FIGURES, End, FailureDetails, RunResult, State, TrainingReport

if TYPE_CHECKING:
    from jobs.observe.log_ends import LogEnds

_FROM_RANK_0 = {each.name for each in fields(TrainingReport)}
_KNOWN = _FROM_RANK_0 | {
    *("rank", "world_size", "samples_seen", "total_samples_seen", "duration_seconds")
}
"""What a summary says besides figures."""
_MOST_EPOCHS, _MOST_HISTORIES = 1000, 100
_REMEDIES = {
    "ModuleNotFoundError": "name the package in the job's `requirements`, or add it to an image "
    "with `build` (docs/own-job.md#packages)",
    "doesn't have NCCL built in": 'use the backend "gloo", with which ranks on CPUs communicate',
    "Read-only file system": "write to /work, or to SLIPWAY_OUTPUT_DIR what is to be kept "
    "(docs/files.md)",
}
"""What to do about errors of scripts that ran elsewhere before, by a part of the error's text."""
_LOG_LINES = 30
_EVENTS = 10


def result(
    end: End,
    run: RunState,
    seen_at: str,
    failure: FailureDetails | None = None,
    full_message: Callable[[int], Mapping[str, Any]] = lambda _: {},
) -> RunResult:
    """Return the result of a run that has come to its end.

    When that was seen, `seen_at`, counts for a job that the operator did not complete.
    `full_message` returns the whole message of a replica, by its number, where 4 KB did not hold
    it.
    """
    job, topology, replicas = run.job, run.topology, run.replicas
    # Also in pods that others have replaced since.
    failed = {each.replica.number: each.exit for each in run.failures}
    ends = {
        number: _deciding_exit(replica, end.state) or failed.get(number)
        for number, replica in replicas.items()
    }
    summaries = {
        number: message
        for number, ended in ends.items()
        if ended is not None and ended.code == 0 and (message := ended.report) is not None
    }
    number, first = _of_rank_0(summaries, topology)
    if "cut" in first:
        first = {**first, **full_message(number)}
    started, completed = pytorchjob.started(job), pytorchjob.completed(job) or seen_at
    reported = {name: first.get(name) for name in _FROM_RANK_0}
    metrics, histories = _metrics(first), _histories(first)
    reported |= {
        # A field of the result may as well be among the program's own figures.
        **{name: figure(first.get(name, metrics.get(name))) for name in FIGURES},
        "step_seconds": numbers(first.get("step_seconds")) or None,
        "artifacts": artifacts(first),
        "metrics": {name: metrics[name] for name in metrics if name not in FIGURES} or None,
        "epoch_accuracies": histories.get("accuracy"),
        "epoch_metrics": histories or None,
    }
    codes = {topology.span(number): each.code for number, each in ends.items() if each is not None}
    return RunResult(
        **reported,
        state=end.state,
        reason=end.reason,
        run_id=run_of(job),
        world_size=topology.world_size,
        samples_seen=_samples_seen(first, summaries, topology),
        training_seconds=first.get("duration_seconds"),
        duration_seconds=(moment(completed) - moment(started)).total_seconds(),
        started=started,
        completed=completed,
        image=next((each.image for each in replicas.values() if each.image), None),
        exit_codes=codes,
        restarts=sum(replica.restarts for replica in replicas.values()),
        failure=failure,
        tracking=_tracking(ends.values()),
    )


def _tracking(ends: Iterable[Exit | None]) -> str | None:
    """Return the address of the tracked run, which each replica that reached the server names."""
    reports = (ended.report or {} for ended in ends if ended is not None)
    return next((each for one in reports if isinstance(each := one.get("tracking"), str)), None)


def _of_rank_0(
    summaries: Mapping[int, Mapping[str, Any]], topology: Topology
) -> tuple[int, Mapping[str, Any]]:
    """Return rank 0's replica and what it left: in an elastic job any may have been it at last."""
    ranks_0 = (each for each in summaries.items() if each[1].get("rank") == 0)
    return next(ranks_0, (0, {})) if topology.elastic else (0, summaries.get(0, {}))


def _samples_seen(
    first: Mapping[str, Any], summaries: Mapping[int, Mapping[str, Any]], topology: Topology
) -> int | None:
    """Return how many samples all ranks trained on, None when a replica did not report it.

    The replicas of an elastic job may have changed on the way, so for those the ledger counts.
    """
    if topology.elastic:
        total = first.get("total_samples_seen")
        return total if isinstance(total, int) else None
    counts = [each.get("samples_seen") for each in summaries.values()]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if len(known) == topology.replicas else None


def _metrics(message: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that a program names itself: in `metrics`, or beside what is known."""
    named = {key: message[key] for key in message if key not in _KNOWN}
    return {**numbers(named), **numbers(message.get("metrics"))}


def _histories(message: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the figures of each epoch, by their names."""
    own = message.get("epoch_metrics")
    every = {"accuracy": message.get("epoch_accuracies"), **(own if isinstance(own, dict) else {})}
    found = {
        name: [value for text in values[-_MOST_EPOCHS:] if (value := figure(text)) is not None]
        for name, values in list(every.items())[:_MOST_HISTORIES]
        if isinstance(values, list)
    }
    return {name: values for name, values in found.items() if values}


def artifacts(message: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the files that a termination message lists with what inputs need; None without any."""
    listed = message.get("artifacts")
    found = {
        name: each
        for name, each in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(each, dict) and all(isinstance(each.get(k), str) for k in ("url", "sha256"))
    }
    return found or None


def _deciding_exit(replica: Replica, state: State) -> Exit | None:
    """Return how a replica ended; where the run failed, its first failure, not what followed."""
    exits = replica.exits
    failures = [ended for ended in exits if ended.code != 0]
    if state != "Succeeded" and failures:
        return failures[0]
    return exits[-1] if exits else None


def refused(reason: str, world_size: int) -> RunResult:
    """Return the result of a job that the API server or the operator's webhook did not admit."""
    return RunResult(
        state="CannotStart",
        reason=f"refused: {reason}",
        world_size=world_size,
        exit_codes={},
    )


def details(
    end: End, run: RunState, logs: LogEnds, events: Iterable[Mapping[str, Any]]
) -> FailureDetails:
    """Return what is known of a run that did not succeed, with what its logs and events show."""
    disruption, cause, silent = run.cured_by_a_retry, run.cause, logs.silent()
    evicted = None if cause is None else cause.replica.evicted
    is_news = disruption is not None and (evicted is None or evicted not in disruption)
    return FailureDetails(
        **_who(run, silent or run.idle),
        disruption=disruption if is_news else None,
        stacks=logs.stacks() or None,
        followers=run.followers or None,
        previous_log=logs.before()[-_LOG_LINES:] or None,
        log=logs.relevant()[-_LOG_LINES:],
        events=warnings(events)[-_EVENTS:],
        advice=_advice(end, run, silent),
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
        if not pytorchjob.repeats_a_pods(event)
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
    else:
        known = (text for sign, text in _REMEDIES.items() if sign in cause.exit.message)
        advice = next(known, advice)
    return f"{advice}, then run `make up` again"
