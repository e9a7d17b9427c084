"""`make compare JOB=… WITH=…`: a run beside its baseline and the job's earlier runs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from core.manifests import read
from core.paths import CHECKOUT
from core.problem import choices
from jobs.model.job import TrainingJob
from jobs.records import archive
from jobs.records.events import figure, numbers
from jobs.records.history import History, Record, mean
from jobs.run.gate import limits
from scripts.cli.config import load_settings, require_job
from scripts.cli.state import JobState, read_state
from scripts.cli.terminal import CommandError, console

BASELINE = "baseline"
_EARLIER = 3  # runs before this one that are compared unless one is named
_SAME = 0.0005  # of a figure
_LEGEND = "Better, worse, more and less: this run, the first one, beside each other one."
_CODE = {"files": "another script", "image": "another image"}
"""What tells that another program was trained, by its name in `jobs.records.history.provenance`."""
_FIGURES = read(Path(__file__).with_name("figures.yaml"))


@dataclass(frozen=True)
class Comparison:
    """A table: a run's figures, and beside them each other run's with what became of it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def compare(stack: str, job: str, other: str) -> int:
    """Print how a job's latest run compares; exits with 0."""
    jobs = read_state(stack, logs_of=job).jobs
    require_job(stack, job, jobs)
    state = jobs[job]
    if state.gate is None and (settings := load_settings(stack)) is not None:  # it was missed
        state = with_limits(state, settings.jobs)
    found = of_job(stack, state, other)
    if found is None:
        raise CommandError(f"No run of {job} has ended yet; `make up STACK={stack}` trains it.")
    columns = (Column(column, overflow="fold") for column in found.columns)
    table = Table(*columns, title=f"{job}, stack {stack}", title_justify="left")
    for row in found.rows:
        table.add_row(*row)
    out = console()
    out.print(table)
    for note in found.notes:
        out.print(note, soft_wrap=True)
    return 0


def of_job(stack: str, job: JobState, other: str = "") -> Comparison | None:
    """Return how a job's latest run compares with one, or with all; None where none has ended."""
    ended = [record for record in remembered(stack, job) if record.result is not None]
    if not ended:
        return None
    *earlier, mine = ended
    known = {record.run_id: record for record in earlier}
    chosen = [*reversed(known)][:_EARLIER]
    machine, reference = baseline(job.name) or ("", None)
    if reference is not None:
        known[BASELINE] = reference
        chosen = [BASELINE, *chosen]
    if other and other not in known:
        raise CommandError(f"WITH={other} is no run of {job.name}; {choices(other, known)}")
    others = {name: known[name] for name in ([other] if other else chosen)}
    found = compared(mine, others, (job.gate or {}).get("require") or {})
    whose = f"Baseline: {job.name}'s, taken on {machine}"
    return replace(found, notes=[whose, *found.notes]) if BASELINE in others else found


def with_limits(state: JobState, declared: Sequence[TrainingJob]) -> JobState:
    """Return a job with the limits of its gate, which has no state where a run has missed it."""
    known = next((limits(job) for job in declared if job.name == state.name), None)
    return state if state.gate is not None or known is None else replace(state, gate=known)


def remembered(stack: str, job: JobState) -> list[Record]:
    """Return what is known of a job's runs, the oldest first."""
    records = History(archive.of_job(stack, job.name)).records()
    if (result := job.result) is not None:
        run_id, started = result.run_id or "", result.started or ""
        if all(each.run_id != run_id for each in records):  # another machine waited for it
            by, known = {"settings": job.declared}, result.as_map()
            records.append(Record(run_id=run_id, submitted=started, provenance=by, result=known))
    return sorted(records, key=lambda record: record.run_id)


def baseline(job: str) -> tuple[str, Record] | None:
    """Return a demo's run to compare with, after its machine and versions; None without one."""
    file = CHECKOUT / "jobs" / "baselines" / f"{job}.json"
    if not file.exists():
        return None
    document = json.loads(file.read_text(encoding="utf-8"))
    known = {**document["machine"], **document["versions"]}
    about = ", ".join(f"{name} {value}" for name, value in known.items())
    return f"{about}; {document['date']}", Record(**document["run"])


def compared(mine: Record, others: Mapping[str, Record], require: Mapping[str, Any]) -> Comparison:
    """Return a run's figures beside those of others, which are by name; `require` is its gate's."""
    everyone = (mine, *others.values())
    reached = [[epoch["accuracy"] for epoch in r.epochs if "accuracy" in epoch] for r in everyone]
    # What all of them reached.
    target = min(map(max, reached)) if all(reached) else None
    own, *by_other = (_figures(each, target) for each in everyone)
    states = [str(each.run_result and each.run_result.state) for each in everyone]
    rows = [["state", *states]] if set(states) != {"Succeeded"} else []
    for name in dict.fromkeys(name for each in (own, *by_other) for name in each):
        beside = (_beside(name, own.get(name), each.get(name), require) for each in by_other)
        rows.append([name, _shown(own.get(name)), *beside])
    notes = [note for name, each in others.items() if (note := _differs(name, mine, each))]
    legend = [_LEGEND] if others else []
    return Comparison(["figure", mine.run_id, *others], rows, [*legend, *notes])


def _figures(record: Record, target: float | None) -> dict[str, float]:
    result, epochs = record.run_result, record.epochs
    found = {name: figure(getattr(result, name, None)) for name in _FIGURES["compared"]}
    if target is not None:
        there = (each for each in epochs if each.get("accuracy", 0) >= target)
        found[f"seconds to accuracy {target:.4g}"] = next(there, {}).get("elapsed_seconds")
    rates = [each["samples_per_second"] for each in epochs if "samples_per_second" in each]
    found["samples per second"] = mean(rates) if rates else None
    parts = Counter[str]()
    for each in epochs:
        parts.update(each.get("seconds_in") or {})
    share = parts["backward"] / parts.total() if parts.total() else None
    found["backward and communication, share of a step"] = share
    found |= numbers(result and result.metrics)
    return {name: value for name, value in found.items() if value is not None}


def _beside(name: str, mine: float | None, other: float | None, require: Mapping[str, Any]) -> str:
    """Return another run's figure, and by how much this run's is better or worse."""
    if mine is None or other is None:
        return _shown(other)
    change, size = abs(mine - other), abs(other)
    if change == 0 or change < _SAME * size:
        return f"{_shown(other)} (same)"
    better, word = _better(name, require), "more" if mine > other else "less"
    if better != "unknown":
        word = "better" if better == word else "worse"
    by = f"{change / size:.1%}" if size else f"{change:.6g}"
    return f"{_shown(other)} ({by} {word})"


def _better(name: str, require: Mapping[str, Any]) -> str:
    """Return which of two values is better: by the job's own limit, or by the figure's name."""
    bounds = require.get(name) or {}
    if len(bounds) == 1:
        return "more" if "min" in bounds else "less"
    parts = _FIGURES["better"].items()
    return next((better for part, better in parts if part in name.lower()), "unknown")


def _differs(name: str, mine: Record, other: Record) -> str:
    """Return in what another run's settings and program differ; empty where they are the same."""
    own, others = (each.provenance.get("settings") or {} for each in (mine, other))
    different = [
        f"{key} {others.get(key, 'unset')} (here {own.get(key, 'unset')})"
        for key in dict.fromkeys([*own, *others])
        if own.get(key) != others.get(key)
    ]
    different += [
        text
        for key, text in _CODE.items()
        if name != BASELINE and mine.provenance.get(key) != other.provenance.get(key)
    ]
    return f"{name} was trained with {', '.join(different)}" if different else ""


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
