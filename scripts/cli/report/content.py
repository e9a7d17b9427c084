"""What the report has of each job: its latest run, and what trained all of its runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from jobs.config import KEYS
from jobs.judge.progress import duration
from jobs.logs import archive
from jobs.logs.archive import Run
from jobs.logs.history import Record
from jobs.result import RunResult, explain
from jobs.topology import Topology
from jobs.watch.timeline import entries
from scripts.cli.compare import Comparison, of_job, remembered
from scripts.cli.outcome import Outcome
from scripts.cli.report import charts, series
from scripts.cli.report.charts import Chart
from scripts.cli.report.lines import Lines, newest
from scripts.cli.state import JobState, files_left

_FIGURES = {
    "accuracy": "accuracy",
    "top5_accuracy": "top-5 accuracy",
    "loss": "loss",
    "goal": "goal",
    "time_to_accuracy_seconds": "seconds to the goal",
    "samples_seen": "samples",
    "world_size": "ranks",
    "backend": "backend",
    "dataset": "data set",
    "device": "device",
    "device_name": "device",
    "torch": "torch",
    "duration_seconds": "seconds, from start to end",
    "training_seconds": "seconds of training",
    "goodput": "goodput",
    "restarts": "restarts",
    "reformations": "worlds that formed anew",
    "image": "image",
    "tracking": "tracking",
    "started": "started",
    "completed": "ended",
}
_LIMITS = ("minAccuracy", "maxDuration", "maxTimeToAccuracy", "require")
_DIGITS = 12


@dataclass(frozen=True)
class Section:
    """A job's part of the report; what its template shows, in this order."""

    job: str
    run_id: str
    state: str
    gate: str
    missed: Sequence[str]
    story: str
    figures: Mapping[str, str]
    files: Mapping[str, Mapping[str, Any]]
    charts: Sequence[Chart]
    entries: Sequence[Mapping[str, str]]
    timeline: Chart | None
    comparison: Comparison | None
    history: Sequence[Mapping[str, str]]
    ranks: Sequence[int]
    lines: Lines
    settings: str
    command: str


def section(stack: str, state: JobState, outcome: Outcome) -> Section:
    """Return what the report has of a job whose run has been declared."""
    kept = archive.of_job(stack, state.name)
    records, runs = remembered(stack, state), kept.runs()
    result = outcome.result
    run_id = _latest(records, runs, result)
    record = next((each for each in records if each.run_id == run_id), None)
    if result is None or result.get("run_id") not in {None, run_id}:
        result = None if record is None else record.result  # the state still has the run before
    latest = kept.run(run_id)
    topology = latest.topology or Topology.of(state.inputs["manifest"])
    found = _series(latest, record, result)
    happened = [entry for run in runs for entry in entries(run.timeline)]
    settings = state.inputs.get("declared") if record is None else record.provenance.get("settings")
    return Section(
        job=state.name,
        run_id=run_id,
        state=outcome.state if result is None else str(result.get("state")),
        gate=outcome.gate,
        missed=outcome.missed,
        story=_story(state.name, result) or outcome.note,
        figures=dict(_figures(result or {})),
        files=files_left(result),
        charts=[*charts.charts(found)],
        entries=happened,
        timeline=charts.timeline(happened) if happened else None,
        comparison=of_job(stack, state),
        history=[_row(each) for each in reversed(records)],
        ranks=range(topology.world_size),
        lines=newest(runs, topology),
        settings=as_yaml(state.name, settings or {}, state.gate),
        command=command(stack, state.name, record),
    )


def as_yaml(job: str, settings: Mapping[str, Any], gate: Mapping[str, Any] | None) -> str:
    """Return a job's declaration, as a stack's file has it, with the limits of its gate."""
    judged = (
        {key: gate[key] for key in _LIMITS if (gate or {}).get(key) is not None} if gate else {}
    )
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


def _latest(
    records: Sequence[Record], runs: Sequence[Run], result: Mapping[str, Any] | None
) -> str:
    """Return the id of the latest run of which anything is known; ids have the time."""
    known = [*(each.run_id for each in records[-1:]), *(each.id for each in runs[-1:])]
    return max([*known, str((result or {}).get("run_id", ""))])


def _series(run: Run, record: Record | None, result: Mapping[str, Any] | None) -> series.Series:
    found = series.of_logs(run)
    if found.curves:
        return found
    known = [] if record is None else record.epochs
    return series.of_record(known, (result or {}).get("epoch_metrics") or {})


def _story(job: str, result: Mapping[str, Any] | None) -> str:
    if result is None or result.get("state") == "Succeeded":
        return ""
    return explain(job, RunResult.of(result))


def _figures(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    known = {_FIGURES[name]: result[name] for name in _FIGURES if result.get(name) is not None}
    codes = result.get("exit_codes") or {}
    ended = {"exit codes": ", ".join(f"{ranks}: {code}" for ranks, code in codes.items())}
    classes = {
        f"accuracy of {name}": each for name, each in (result.get("class_accuracies") or {}).items()
    }
    for name, value in {**known, **(result.get("metrics") or {}), **classes, **ended}.items():
        if value not in (None, ""):
            yield name, f"{value:.6g}" if isinstance(value, float) else str(value)


def _row(record: Record) -> dict[str, str]:
    """Return what a table shows of a run: what trained it, and what came of it."""
    by, result = record.provenance, record.result or {}
    revision, dirty, _ = str(by.get("revision", "")).partition("-dirty")
    seconds, accuracy = result.get("duration_seconds"), result.get("accuracy")
    return {
        "run": record.run_id,
        "submitted": record.submitted,
        "state": str(result.get("state", "not ended, or not waited for")),
        "accuracy": "" if accuracy is None else f"{accuracy:.4f}",
        "took": "" if seconds is None else duration(seconds),
        "revision": revision[:_DIGITS] + dirty,
        "image": str(result.get("image") or by.get("image") or ""),
        "data": _flow(by.get("data")) or str(result.get("dataset") or ""),
        "settings": _flow({k: v for k, v in (by.get("settings") or {}).items() if k != "data"}),
    }


def _flow(value: Any) -> str:
    """Return a value as YAML in one line; empty for an empty one."""
    if not value:
        return ""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return str(text).strip().removesuffix("...").strip()
