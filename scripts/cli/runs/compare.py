"""`make compare JOB=… WITH=…`: compare a run with its baseline and the job's earlier runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Column, Table

from core.paths import CHECKOUT
from core.problem import choices
from jobs.model.job import TrainingJob
from jobs.records import archive
from jobs.records.events import figure, numbers
from jobs.records.history import History, Record, mean
from jobs.run.gate import limits
from scripts.cli.config import load_settings, require_job
from scripts.cli.runs.charts import FIGURES, number
from scripts.cli.state import JobState, read_state
from scripts.cli.terminal import CommandError, console

BASELINE = "baseline"
_EARLIER = 3  # number of earlier runs to compare with, unless one is given
_SAME = 0.0005  # fraction of a figure; smaller differences count as none
_LEGEND = "Better, worse, more and less describe this run (first column) relative to the others."


@dataclass(frozen=True)
class Comparison:
    """A table of metrics for a run and for the runs that it is compared with."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def compare(stack: str, job: str, other: str) -> int:
    """Print how a job's latest run compares with the run `other` ("" for several); return 0."""
    jobs = read_state(stack, logs_of=job).jobs
    require_job(stack, job, jobs)
    state = jobs[job]
    if state.gate is None and (settings := load_settings(stack)) is not None:  # the gate was missed
        state = with_limits(state, settings.jobs)
    comparison = of_job(stack, state, other)
    if comparison is None:
        raise CommandError(f"No run of {job} has finished yet; `make up STACK={stack}` runs it.")
    columns = (Column(column, overflow="fold") for column in comparison.columns)
    table = Table(*columns, title=f"{job}, stack {stack}", title_justify="left")
    for row in comparison.rows:
        table.add_row(*row)
    out = console()
    out.print(table)
    for note in comparison.notes:
        out.print(note, soft_wrap=True)
    return 0


def of_job(stack: str, job: JobState, other: str = "") -> Comparison | None:
    """Return a comparison of a job's latest finished run, or None if no run has finished.

    `other` is the ID of the run to compare with, or "" for the baseline and the last few runs.
    """
    ended = [record for record in remembered(stack, job) if record.result is not None]
    if not ended:
        return None
    *earlier, mine = ended
    candidates = {record.run_id: record for record in earlier}
    chosen = [*reversed(candidates)][:_EARLIER]
    machine, reference = baseline(job.name) or ("", None)
    if reference is not None:
        candidates[BASELINE] = reference
        chosen = [BASELINE, *chosen]
    if other and other not in candidates:
        raise CommandError(f"WITH={other} is not a run of {job.name}; {choices(other, candidates)}")
    others = {name: candidates[name] for name in ([other] if other else chosen)}
    table = compared(mine, others, (job.gate or {}).get("require") or {})
    whose = f"Baseline for {job.name}, measured on {machine}"
    return replace(table, notes=[whose, *table.notes]) if BASELINE in others else table


def with_limits(state: JobState, declared: Sequence[TrainingJob]) -> JobState:
    """Return a job with its declared limits as its gate if the gate failed.

    The state does not contain failed gates.
    """
    gate = next((limits(job) for job in declared if job.name == state.name), None)
    return state if state.gate is not None or gate is None else replace(state, gate=gate)


def remembered(stack: str, job: JobState) -> list[Record]:
    """Return the recorded runs of a job, oldest first."""
    records = History(archive.of_job(stack, job.name)).records()
    if (result := job.result) is not None and result.run_id is not None:  # None if it was refused
        run_id, started = result.run_id, result.started or ""
        if all(each.run_id != run_id for each in records):  # another machine waited for it
            by, final = {"settings": job.declared}, result.as_map()
            records.append(Record(run_id=run_id, submitted=started, provenance=by, result=final))
    return sorted(records, key=lambda record: archive.by_time(record.run_id))


def baseline(job: str) -> tuple[str, Record] | None:
    """Return the machine and the run of a job's baseline, or None if the job has no baseline."""
    file = CHECKOUT / "jobs" / "baselines" / f"{job}.json"
    if not file.exists():
        return None
    document = json.loads(file.read_text(encoding="utf-8"))
    attributes = {**document["machine"], **document["versions"]}
    about = ", ".join(f"{name} {value}" for name, value in attributes.items())
    return f"{about}; {document['date']}", Record(**document["run"])


def compared(mine: Record, others: Mapping[str, Record], require: Mapping[str, Any]) -> Comparison:
    """Compare a run's metrics with other runs' metrics; `require` contains the gate's limits."""
    everyone = (mine, *others.values())
    reached = [[epoch["accuracy"] for epoch in r.epochs if "accuracy" in epoch] for r in everyone]
    # The highest accuracy that all the runs reached.
    target = min(map(max, reached)) if all(reached) else None
    own, *by_other = (_figures(each, target) for each in everyone)
    states = [str(each.run_result and each.run_result.state) for each in everyone]
    rows = [["state", *states]] if set(states) != {"Succeeded"} else []
    for name in dict.fromkeys(name for each in (own, *by_other) for name in each):
        beside = (_beside(name, own.get(name), each.get(name), require) for each in by_other)
        rows.append([name, number(own.get(name)), *beside])
    notes = [note for name, each in others.items() if (note := _differs(name, mine, each))]
    legend = [_LEGEND] if others else []
    return Comparison(["metric", mine.run_id, *others], rows, [*legend, *notes])


def _figures(record: Record, target: float | None) -> dict[str, float]:
    result, epochs = record.run_result, record.epochs
    figures = {name: figure(getattr(result, name, None)) for name in FIGURES["compared"]}
    if target is not None:
        there = (each for each in epochs if each.get("accuracy", 0) >= target)
        figures[f"seconds to accuracy {target:.4g}"] = next(there, {}).get("elapsed_seconds")
    rates = [each["samples_per_second"] for each in epochs if "samples_per_second" in each]
    figures["samples per second"] = mean(rates) if rates else None
    parts = Counter[str]()
    for each in epochs:
        parts.update(each.get("seconds_in") or {})
    share = parts["backward"] / parts.total() if parts.total() else None
    figures["backward and communication, share of a step"] = share
    figures |= numbers(result and result.metrics)
    return {name: value for name, value in figures.items() if value is not None}


def _beside(name: str, mine: float | None, other: float | None, require: Mapping[str, Any]) -> str:
    """Format another run's metric, with how much better or worse this run is."""
    if mine is None or other is None:
        return number(other)
    change, size = abs(mine - other), abs(other)
    if change == 0 or change < _SAME * size:
        return f"{number(other)} (same)"
    better, word = _better(name, require), "more" if mine > other else "less"
    if better != "unknown":
        word = "better" if better == word else "worse"
    by = f"{change / size:.1%}" if size else f"{change:.6g}"
    return f"{number(other)} ({by} {word})"


def _better(name: str, require: Mapping[str, Any]) -> str:
    """Return which is better for a metric, "more" or "less", from its limit or its name."""
    bounds = require.get(name) or {}
    if len(bounds) == 1:
        return "more" if "min" in bounds else "less"
    parts = FIGURES["better"].items()
    return next((better for part, better in parts if part in name.lower()), "unknown")


def _differs(name: str, mine: Record, other: Record) -> str:
    """Describe how another run's settings and program differ; "" if they don't."""
    own, others = (each.provenance.get("settings") or {} for each in (mine, other))
    different = [
        f"{key} {others.get(key, 'unset')} (here {own.get(key, 'unset')})"
        for key in dict.fromkeys([*own, *others])
        if own.get(key) != others.get(key)
    ]
    different += [
        text
        for key, text in FIGURES["program"].items()
        if name != BASELINE and mine.provenance.get(key) != other.provenance.get(key)
    ]
    return f"{name} was trained with {', '.join(different)}" if different else ""
