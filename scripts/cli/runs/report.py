"""`make report JOB=… TO=…`: write a page, which needs no server, about each job's latest run."""

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.files import write
from core.paths import use_extra
from core.wording import as_typed
from jobs.config import KEYS
from jobs.model.pytorchjob import Topology
from jobs.observe.progress import duration
from jobs.records import archive
from jobs.records.archive import entries
from jobs.records.history import Record
from jobs.result import RunResult, explain
from jobs.run.gate import LIMITS
from scripts.cli.config import load_settings, require_job, without_runs
from scripts.cli.from_yaml import as_yaml
from scripts.cli.runs import charts, report_data
from scripts.cli.runs.compare import of_job, remembered, with_limits
from scripts.cli.runs.report_data import most_lines, newest_lines
from scripts.cli.runs.results import Outcome, outcomes
from scripts.cli.state import JobState, read_state
from scripts.cli.terminal import CommandError, echo
from scripts.setup import bootstrap

_SHOWN_ELSEWHERE = frozenset({"state", "reason", "run_id", "artifacts", "failure", "attempts"})
Section = Mapping[str, Any]  # a job's values in the template, by name


def report(stack: str, job: str, to: str) -> int:
    """Write the report about all jobs in a stack, or about `job`, to a file; return 0."""
    sections = read(stack, job)
    bootstrap.add_extra(bootstrap.REPORT, Path(sys.prefix))
    use_extra(bootstrap.REPORT)
    file = Path(to or "report.html")
    try:
        # Private, since the jobs' output may contain secrets.
        write(file, page(stack, sections), mode=0o600)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"{file} can't be written: {reason}. Use another file: TO=…") from error
    echo(f"{file.resolve()}: open it in a browser.")
    return 0


def read(stack: str, job: str = "") -> list[Section]:
    """Return the report's sections: one for each job with a run, or only the one for `job`."""
    state = read_state(stack, logs_of=job)
    if not state.jobs:
        raise without_runs(stack)
    if job:
        require_job(stack, job, state.jobs)
    settings = load_settings(stack)
    declared = () if settings is None else settings.jobs
    results = outcomes(stack, state, declared)
    return [
        section(stack, with_limits(each, declared), results[name])
        for name, each in state.jobs.items()
        if job in {"", name}
    ]


def page(stack: str, sections: Sequence[Section]) -> str:
    """Return the report as HTML, which requires the packages in the extra `report`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - of the extra

    # Not imported, since plotly's modules take a second.
    spec = importlib.util.find_spec("plotly")
    library = Path(str(spec and spec.origin)).parent / "package_data" / "plotly.min.js"
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.policies["json.dumps_function"] = _as_json
    environment.filters |= {"json": json.dumps, "duration": duration, "words": words}
    return environment.get_template("report.html.j2").render(
        stack=stack,
        typed=as_typed,
        sections=sections,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        # The library's text must not end the script element.
        plotly=library.read_text(encoding="utf-8").replace("</script", r"<\/script"),
    )


def _as_json(value: Any, **options: Any) -> str:
    """Return JSON that browsers can read: NaN becomes null, which plotly draws as a gap."""
    return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), **options)


def section(stack: str, state: JobState, outcome: Outcome) -> Section:
    """Return the values for a job's section in the template."""
    kept = archive.of_job(stack, state.name)
    is_refused = outcome.result is not None and outcome.result.run_id is None
    records, runs = remembered(stack, state), [] if is_refused else kept.runs()
    # The latest run with any record.
    ids = [*(each.run_id for each in records), *(each.id for each in runs)]
    run_id = "" if is_refused else max(ids, key=archive.by_time, default="")
    record = next((each for each in records if each.run_id == run_id), None)
    if outcome.result is not None and outcome.result.run_id not in {None, run_id}:
        # The state still contains the previous run.
        last = None if record is None else record.run_result
        reached = "running or interrupted" if last is None else last.state
        outcome = replace(outcome, state=reached, result=last, gate="", missed=())
    result = outcome.result
    story = outcome.note if result is None or result.succeeded else explain(state.name, result)
    figures = {} if result is None else dict(_figures(result))
    own = [name for name in figures if name.startswith("metrics ")]
    own.sort(key=lambda name: name.partition(" ")[2] not in outcome.gated)
    latest = kept.run(run_id)
    topology = latest.topology or Topology.of_declared(state.declared)
    epochs = [] if record is None else record.epochs
    series = report_data.of_logs(latest, epochs)
    if not series.curves:
        series = report_data.of_record(epochs, (result and result.epoch_metrics) or {})
    events = [entry for run in runs for entry in entries(run.timeline)]
    settings = state.declared if record is None else record.provenance.get("settings")
    return {
        "job": state.name,
        "run_id": run_id,
        "outcome": outcome,
        "story": story,
        "figures": figures,
        "headline": [name for name in figures if name in {*charts.FIGURES["headline"], *own[:4]}],
        "charts": [*charts.charts(series)],
        "timeline": charts.timeline(events) if events else None,
        "comparison": of_job(stack, state),
        "history": records[::-1],
        "ranks": range(topology.world_size),
        "lines": newest_lines(runs, topology),
        "most_lines": most_lines(topology),
        "settings": declared_yaml(state.name, settings or {}, state.gate),
        "command": command(stack, state.name, record),
    }


def declared_yaml(job: str, settings: Mapping[str, Any], gate: Mapping[str, Any] | None) -> str:
    """Return a job's declaration as YAML for a stack's file, including the limits of its gate."""
    judged = {key: value for key in LIMITS if (value := (gate or {}).get(key)) is not None}
    declared = {key: value for key, value in settings.items() if key in KEYS} | judged
    return as_yaml({"config": {"slipway:jobs": {job: declared}}})


def command(stack: str, job: str, record: Record | None) -> str:
    """Return the shell commands that repeat a run in its stack."""
    again = as_typed(f"make rerun JOB={job} STACK={stack}")
    if record is None or (revision := record.provenance.get("revision")) is None:
        return again
    commit, dirty, _ = str(revision).partition("-dirty")
    note = "  # plus the uncommitted changes" if dirty else ""
    return f"git checkout {commit}{note}\n{again}"


def words(name: str) -> str:
    """Return the display name of a result's field; a job's own metrics keep their names."""
    field, _, key = name.partition(" ")
    return f"{charts.FIGURES['words'].get(field, field)} {key}".strip() or name


def _shown(field: str, value: Any) -> str:
    if isinstance(value, str | bool):
        return value if isinstance(value, str) else ("no", "yes")[value]
    if field.endswith("_seconds"):
        return f"{value:.3g} s" if value < 60 else duration(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _figures(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a result's fields and, for maps, of each item in the map."""
    for name, value in result.as_map().items():
        for key, each in value.items() if isinstance(value, Mapping) else [("", value)]:
            if name not in _SHOWN_ELSEWHERE and isinstance(each, str | int | float):
                yield f"{name} {key}".rstrip(), _shown(name, each)
