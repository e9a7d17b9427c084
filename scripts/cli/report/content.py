"""What the report has of each job: its latest run, and what trained all of its runs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from jobs.config import KEYS
from jobs.observe.progress import duration
from jobs.records import archive
from jobs.records.archive import Run
from jobs.records.history import Record
from jobs.records.timeline import entries
from jobs.result import RunResult, explain
from jobs.run.gate import LIMITS
from scripts.cli.compare import Comparison, of_job, remembered
from scripts.cli.outcome import Outcome
from scripts.cli.report import charts, series
from scripts.cli.report.charts import Chart
from scripts.cli.report.lines import Line, most, newest
from scripts.cli.state import JobState

_SHOWN_ELSEWHERE = frozenset({"state", "reason", "run_id", "artifacts", "failure", "attempts"})
_DIGITS = 12


@dataclass(frozen=True)
class Section:
    """A job's part of the report; what its template shows, in this order."""

    job: str
    run_id: str
    outcome: Outcome
    story: str
    figures: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]
    charts: Sequence[Chart]
    timeline: Chart | None
    comparison: Comparison | None
    history: Sequence[Mapping[str, str]]
    ranks: Sequence[int]
    lines: Sequence[Line]
    most_lines: int
    settings: str
    command: str


def section(stack: str, state: JobState, outcome: Outcome) -> Section:
    """Return what the report has of a job whose run has been declared."""
    kept = archive.of_job(stack, state.name)
    records, runs = remembered(stack, state), kept.runs()
    run_id = _latest(records, runs, outcome.result)
    record = next((each for each in records if each.run_id == run_id), None)
    if outcome.result is not None and outcome.result.run_id not in {None, run_id}:
        # The state still has the run before.
        last = None if record is None else record.run_result
        reached = "going on, or interrupted" if last is None else last.state
        outcome = replace(outcome, state=reached, result=last, gate="", missed=())
    result = outcome.result
    latest = kept.run(run_id)
    topology = latest.topology or state.topology
    found = _series(latest, record, result)
    happened = [entry for run in runs for entry in entries(run.timeline)]
    settings = state.declared if record is None else record.provenance.get("settings")
    return Section(
        job=state.name,
        run_id=run_id,
        outcome=outcome,
        story=outcome.note if result is None or result.succeeded else explain(state.name, result),
        figures={} if result is None else dict(_figures(result)),
        files={} if result is None else result.files,
        charts=[*charts.charts(found)],
        timeline=charts.timeline(happened) if happened else None,
        comparison=of_job(stack, state),
        history=[_row(each) for each in reversed(records)],
        ranks=range(topology.world_size),
        lines=newest(runs, topology),
        most_lines=most(topology),
        settings=as_yaml(state.name, settings or {}, state.gate),
        command=command(stack, state.name, record),
    )


def as_yaml(job: str, settings: Mapping[str, Any], gate: Mapping[str, Any] | None) -> str:
    """Return a job's declaration, as a stack's file has it, with the limits of its gate."""
    judged = {key: value for key in LIMITS if (value := (gate or {}).get(key)) is not None}
    declared = {key: value for key, value in settings.items() if key in KEYS} | judged
    document = {"config": {"slipway:jobs": {job: declared}}}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def command(stack: str, job: str, record: Record | None) -> str:
    """Return the commands that repeat a run in its stack."""
    again = f"make rerun JOB={job} STACK={stack}"
    revision = None if record is None else record.provenance.get("revision")
    if revision is None:
        return again
    commit, dirty, _ = str(revision).partition("-dirty")
    note = "  # and the changes that were not committed" if dirty else ""
    return f"git checkout {commit}{note}\n{again}"


def _latest(records: Sequence[Record], runs: Sequence[Run], result: RunResult | None) -> str:
    """Return the id of the latest run of which anything is known; ids have the time."""
    known = [*(each.run_id for each in records[-1:]), *(each.id for each in runs[-1:])]
    return max([*known, (result and result.run_id) or ""])


def _series(run: Run, record: Record | None, result: RunResult | None) -> series.Series:
    known = [] if record is None else record.epochs
    found = series.of_logs(run, known)
    if found.curves:
        return found
    return series.of_record(known, (result and result.epoch_metrics) or {})


def _figures(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the fields of a result (docs/results.md) that are values, or maps of values."""
    for name, value in sorted(result.as_map().items()):
        if name in _SHOWN_ELSEWHERE:
            continue
        inner = value.items() if isinstance(value, Mapping) else [("", value)]
        for key, each in inner:
            if isinstance(each, str | int | float):
                shown = f"{each:.6g}" if isinstance(each, float) else str(each)
                yield f"{name} {key}".rstrip(), shown


def _row(record: Record) -> dict[str, str]:
    """Return what a table shows of a run: what trained it, and what came of it."""
    by, result = record.provenance, record.run_result
    revision, dirty, _ = str(by.get("revision", "")).partition("-dirty")
    row = {
        "run": record.run_id,
        "submitted": record.submitted,
        "state": "not ended, or not waited for",
        "accuracy": "",
        "took": "",
        "revision": revision[:_DIGITS] + dirty,
        "image": str(by.get("image") or ""),
        "data": json.dumps(by["data"]) if by.get("data") else "",
        "settings": json.dumps(by.get("settings") or {}),
    }
    if result is not None:
        row["state"] = result.state
        row["image"] = result.image or row["image"]
        row["data"] = row["data"] or result.dataset or ""
        if result.accuracy is not None:
            row["accuracy"] = f"{result.accuracy:.4f}"
        if result.duration_seconds is not None:
            row["took"] = duration(result.duration_seconds)
    return row
