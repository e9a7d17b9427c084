"""Build a run's result, with the reason for a failure, and advice."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

from core.fitting import fitting
from jobs.api.lines import moment
from jobs.model import pytorchjob
from jobs.model.job import TrainingJob
from jobs.model.pytorchjob import Topology, run_of
from jobs.observe.exits import SIGNS, Exit
from jobs.observe.log_ends import LogEnds
from jobs.observe.replica import Replica
from jobs.observe.run_state import RunState
from jobs.records.events import figure, numbers
from jobs.result import FIGURES, End, FailureDetails, RunResult, TrainingReport
from slipway.worlds import apart

_FROM_RANK_0 = {each.name for each in fields(TrainingReport)}
_KNOWN = _FROM_RANK_0 | {
    *("rank", "world_size", "samples_seen", "total_samples_seen", "duration_seconds", "cpu_seconds")
}
"""The fields in a rank's summary that are not metrics."""
_LOG_LINES = 30
_CHAIN = re.compile("direct cause of the following exception|During handling of the above")
_OF_A_FILE = ("url", "sha256", "bytes")


def result(
    end: End,
    run: RunState,
    seen_at: str,
    failure: FailureDetails | None = None,
    full_message: Callable[[int], Mapping[str, Any]] = lambda _: {},
) -> RunResult:
    """Return the result of a run that has ended.

    `seen_at` is the end time to use if the operator did not record one. `full_message` returns a
    replica's complete message, given the replica's number, if the message exceeds 4 KB.
    """
    job, topology, replicas = run.job, run.topology, run.replicas
    # Includes pods that have since been replaced.
    failed = {each.replica.number: [each.exit] for each in run.failures}
    ends: dict[int, Exit] = {}
    for number, replica in replicas.items():
        # In a failed run, each replica's first failure counts.
        own = [each for each in replica.exits if each.code != 0 and end.state != "Succeeded"]
        if exits := own or replica.exits[-1:] or failed.get(number):
            ends[number] = exits[0]
    summaries = {number: ended.report for number, ended in ends.items() if ended.code == 0}
    # In an elastic job, any replica may have been the last rank 0.
    ranks_0 = (number for number, each in summaries.items() if each.get("rank") == 0)
    number = next(ranks_0, -1) if topology.elastic else 0
    first = summaries.get(number, {})
    if "cut" in first:
        first = {**first, **full_message(number)}
    started, completed = pytorchjob.times(job)
    completed = completed or seen_at
    reported = {name: first.get(name) for name in _FROM_RANK_0}
    # A program's own metrics are in `metrics`, or alongside the known fields.
    others = {key: first[key] for key in first if key not in _KNOWN}
    metrics, histories = numbers(others) | numbers(first.get("metrics")), _histories(first)
    reported |= {
        # A program may report a result field among its own metrics.
        **{name: figure(first.get(name, metrics.get(name))) for name in FIGURES},
        "step_seconds": numbers(first.get("step_seconds")) or None,
        "artifacts": artifacts(first),
        "metrics": {name: metrics[name] for name in metrics if name not in FIGURES} or None,
        "epoch_accuracies": histories.get("accuracy"),
        "epoch_metrics": histories or None,
        "training_seconds": first.get("duration_seconds"),
    }
    kept, lost = fitting(RunResult, reported)
    trained = [] if topology.elastic else _trained(summaries.values())
    # Each replica that reached the tracking server reports the run's URL.
    addresses = (each.report.get("tracking") for each in ends.values())
    return RunResult(
        **kept,
        left_out=lost or None,
        state=end.state,
        reason=end.reason,
        run_id=run_of(job),
        # The program itself may have started more ranks in a pod.
        world_size=max([topology.world_size, *(size for _, size, *_ in trained)]),
        samples_seen=_samples_seen(first, summaries, topology),
        duration_seconds=(moment(completed) - moment(started)).total_seconds(),
        started=started,
        completed=completed,
        image=next((each.image for each in replicas.values() if each.image), None),
        exit_codes={topology.span(number): each.code for number, each in ends.items()},
        resumed_step=run.progress.resumed,
        restarts=sum(replica.restarts for replica in replicas.values()),
        # Only now have all replicas ended.
        failure=None if failure is None else replace(failure, artifacts=_left(run)),
        tracking=next((each for each in addresses if isinstance(each, str)), None),
        stragglers={f"rank {rank}": text for rank, text in run.paces.slow.items()} or None,
        apart=apart(trained) if topology.world_size > 1 else None,
    )


def _trained(summaries: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """Return the ranks' process group records (`slipway.worlds.noted`), or [] if any is invalid."""
    records = (each for one in summaries if isinstance(each := one.get("trained"), list))
    notes = [note for each in records for note in each if isinstance(note, list) and len(note) > 1]
    return notes if all(isinstance(number, int) for note in notes for number in note) else []


def _samples_seen(
    first: Mapping[str, Any], summaries: Mapping[int, Mapping[str, Any]], topology: Topology
) -> int | None:
    """Return the number of samples that all ranks trained on; None if a replica did not report it.

    An elastic job's replicas may change during the run, so the total that rank 0 reports is used.
    """
    if topology.elastic:
        total = first.get("total_samples_seen")
        return total if isinstance(total, int) else None
    counts = [n for each in summaries.values() if isinstance(n := each.get("samples_seen"), int)]
    return sum(counts) if len(counts) == topology.replicas else None


def _histories(message: Mapping[str, Any]) -> dict[str, list[float]]:
    own = message.get("epoch_metrics")
    every = {"accuracy": message.get("epoch_accuracies"), **(own if isinstance(own, dict) else {})}
    histories = {
        name: [value for text in values[-1000:] if (value := figure(text)) is not None]
        for name, values in list(every.items())[:100]
        if isinstance(values, list)
    }
    return {name: values for name, values in histories.items() if values}


def artifacts(message: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the files that a termination message lists with a URL and sha256, or None."""
    listed = message.get("artifacts")
    files = {
        name: {key: each[key] for key in _OF_A_FILE if isinstance(each.get(key), str | int)}
        for name, each in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(each, dict) and all(isinstance(each.get(k), str) for k in ("url", "sha256"))
    }
    return files or None


def _left(run: RunState) -> dict[str, dict[str, Any]] | None:
    """Return the files copied out by the failed rank and by rank 0, which may have lost a peer."""
    of_rank_0 = run.replicas[0].exits if 0 in run.replicas else []
    broken = [] if run.cause is None else [run.cause.exit]
    listed = [artifacts(each.report) or {} for each in (*of_rank_0, *broken)]
    return {name: each[name] for each in listed for name in each} or None


def remarks(run: RunState, found: RunResult) -> Iterator[str]:
    """Yield warnings about a run that succeeded, based on its replicas' exits."""
    if not found.succeeded:
        return
    ends = {str(each): each.ended for each in run.replicas.values()}
    reports = {name: {} if end is None else end.report for name, end in ends.items()}
    for name, report in reports.items():
        if isinstance(text := report.get("warning"), str):
            yield f"{name}: {text}"
    used = [figure(report.get("cpu_seconds")) for report in reports.values()]
    seconds = sum(each or 0 for each in used)
    is_silent = None not in used and not (found.metrics or found.files)
    if is_silent and seconds < 10:  # of CPU time, over all ranks
        yield (
            f"the run succeeded, but used only {seconds:.1f} s of CPU time and left no metrics or "
            "files. If it should train, check if its file only defines functions or exits early"
        )


def details(
    end: End,
    logs: LogEnds,
    events: Iterable[Mapping[str, Any]],
    declared: TrainingJob,
    again: str = "run `make up` again",
) -> FailureDetails:
    """Return the details about a run that did not succeed, with its logs and events.

    `again` is the last step in the advice.
    """
    run, silent = logs.run, logs.silent()
    held = "".join(f"inspect its pod with {way}, " for way in run.held.values())
    return FailureDetails(
        **_culprit(run, silent or run.idle or run.stalled or ()),
        disruption=run.cured_by_a_retry,
        stacks=logs.stacks() or None,
        followers=run.followers or None,
        previous_log=logs.before()[-_LOG_LINES:] or None,
        log=logs.relevant()[-_LOG_LINES:],
        events=warnings(events)[-10:],
        advice=f"{held}{_advice(end, run, silent, declared)}, then {again}",
    )


def warnings(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the warnings among `events`, without duplicates, oldest first."""
    ordered = sorted(
        (event for event in events if event.get("type") == "Warning"),
        key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""),
    )
    lines: dict[str, None] = {}
    for event in ordered:
        about, message = event["involvedObject"], str(event.get("message", ""))
        if not message.startswith(pytorchjob.REPEATS):
            line = f"{about.get('kind')} {about.get('name')}: {event.get('reason')}: "
            lines[line + message.strip()] = None
    return list(lines)


def _culprit(run: RunState, silent: Sequence[Replica]) -> dict[str, Any]:
    """Return details about the replica that failed, or for which its peers were waiting."""
    if len(silent) == 1:
        [one] = silent
        return {"rank": one.topology.first_rank(one.number), "pod": one.name}
    failed = run.cause or run.failed_init
    if failed is None:
        return {}
    shown = {
        "pod": failed.replica.name,
        "exit_code": failed.exit.code,
        "signal": failed.exit.signal,
        "out_of_memory": failed.exit.out_of_memory,
        "error": failed.exit.error,
    }
    if run.cause is None:
        return {**shown, "container": failed.container}
    limit = failed.replica.memory_limit if failed.exit.out_of_memory else None
    return {**shown, "rank": failed.rank, "memory_limit": limit}


def _advice(end: End, run: RunState, silent: Sequence[Replica], declared: TrainingJob) -> str:
    failed, advice = run.cause or run.failed_init, end.advice
    if run.cured_by_a_retry is not None:
        advice = "set `retries: 2`, so that the job is resubmitted automatically"
        if declared.retries > 0:
            is_on = declared.retry_on is None or "lostNode" in declared.retry_on
            advice = "raise the job's `retries`" if is_on else "add `lostNode` to its `retryOn`"
    elif silent:
        limit = "timeout" if run.stalled is None else "stall"
        raised = f", or raise the job's `{limit}`" if end.state == "TimedOut" else ""
        advice = f"find out why that rank did not take part{raised}"
    elif failed is not None and failed.replica.evicted is not None:
        advice = "use less of the resource that its node ran out of, or request more of it"
    elif failed is not None:
        error, message = failed.exit.exception or failed.exit.error, failed.exit.message
        # If the exception is known, other output counts only if another exception caused it.
        is_read = error is None or _CHAIN.search(message) is not None
        texts = (str(failed.exit), error or "", message if is_read else "")
        signs = product(texts, SIGNS["remedies"].items())
        advice = next((what for text, (sign, what) in signs if re.search(sign, text)), advice)
    # As in `jobs.model.program.share`.
    own = declared.master if failed is not None and failed.replica.number == 0 else None
    limits = (own or declared).limits
    key = "memory" if limits is None or limits.memory is None else "limits.memory"
    return advice.replace("{memory}", key if own is None else f"master.{key}")
