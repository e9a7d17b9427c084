"""`make results JOB=…`: how each job has ended last, whatever has become of its cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import yaml
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table

from core.manifests import KEPT_CLAIM, KEPT_DIRECTORY
from jobs.observe.progress import duration
from jobs.result import explain
from scripts.cli import CommandError
from scripts.cli.backend import exists, locks
from scripts.cli.config import check, jobs_of, load_settings, no_job
from scripts.cli.outcome import Outcome, outcomes
from scripts.cli.state import read_state

Format = Literal["text", "json"]

_FIGURES = ("accuracy", "loss", "samples", "ranks", "took", "attempts")
_COLUMNS = ("job", "state", "gate", *_FIGURES, "ended (UTC)")
_PIPE_WIDTH = 10_000
"""The width without a terminal: a table is as wide as its content."""
_IN_STORY = frozenset({"log", "previous_log", "events", "advice"})


def show(stack: str, job: str, format: Format) -> int:  # noqa: A002 - as the command line calls it
    """Print the results of a stack's jobs, or of one job all that is known; exits with 0."""
    check(stack)
    if not exists(stack):
        raise CommandError(
            f"Stack {stack} is not up, and `make down` keeps no results. `make up STACK={stack}` "
            "creates it and trains its jobs."
        )
    found, skipped = _read(stack)
    print_results(stack, found, skipped, job=job, form=format)
    return 0


def summarize(stack: str) -> None:
    """Print a row for each of a stack's jobs at the end of `make up`; nothing without results."""
    found, _ = _read(stack)
    if not any(each.result for each in found.values()):
        return
    _print_table(found)
    if any(each.gate != "passed" for each in found.values()):
        print(f"All about one job: `make results JOB=… STACK={stack}`", file=sys.stderr)


def _read(stack: str) -> tuple[dict[str, Outcome], Mapping[str, str]]:
    """Return how each job has ended, and which entries of the catalogue are skipped, and why."""
    state = read_state(stack)
    # The limits that were missed, and why a job did not run. It takes a second.
    settings = None if state.has_passed(jobs_of(stack)) else load_settings(stack)
    declared = () if settings is None else settings.jobs
    found = outcomes(state, declared, is_busy=bool(locks(stack)))
    return found, state.skipped if settings is None else settings.skipped


def print_results(
    stack: str,
    found: Mapping[str, Outcome],
    skipped: Mapping[str, str],
    *,
    job: str = "",
    form: Format = "text",
) -> None:
    """See `show`; of outcomes that are known."""
    if job and job not in found:
        raise CommandError(no_job(stack, job, found))
    if all(each.state == "no result" for each in found.values()):
        raise CommandError(
            f"Stack {stack} has no results yet; `make up STACK={stack}` trains its jobs."
        )
    if form == "json":
        jobs = {name: each.document for name, each in found.items()}
        document = jobs[job] if job else {"jobs": jobs, "skipped": dict(skipped)}
        print(json.dumps(document, indent=2))
    elif job:
        print(_document(found[job]))
        if left := _files(found[job]):
            print(f"\n{left}; `make fetch JOB={job} STACK={stack}` copies and checks them")
        if (result := found[job].result) is not None and result.tracking is not None:
            print(f"\nits page on the tracking server: `make ui JOB={job} STACK={stack}`")
    else:
        _print_table(found)
        if any(map(_files, found.values())):
            print(f"\nfiles that a job left: `make fetch JOB=… STACK={stack}`")
        for text in filter(None, map(_story, found.values())):
            print(f"\n{text}")
        if skipped:
            lines = (f"\n  {name}: {reason}" for name, reason in skipped.items())
            print(f"\njobs of the catalogue that this cluster can't run:{''.join(lines)}")


def _print_table(found: Mapping[str, Outcome]) -> None:
    is_piped = not Console().is_terminal
    options: dict[str, Any] = {"width": _PIPE_WIDTH, "no_color": True} if is_piped else {}
    console = Console(highlight=False, markup=False, emoji=False, **options)
    style = None if is_piped else box.SIMPLE_HEAD
    table = Table(box=style, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    # Narrow terminals break a cell into lines; nothing is cut off.
    for name in _COLUMNS:
        justify: JustifyMethod = "right" if name in _FIGURES else "left"
        table.add_column(name, justify=justify, overflow="fold")
    for outcome in found.values():
        table.add_row(*_cells(outcome), style=None if is_piped else _style(outcome))
    console.print(table)


def _cells(outcome: Outcome) -> list[str]:
    first = [outcome.job, outcome.state, outcome.gate or "-"]
    if (result := outcome.result) is None:
        return first + ["-"] * (len(_COLUMNS) - len(first))
    seconds, completed = result.duration_seconds, result.completed
    return [
        *first,
        _figure(result.accuracy, "{:.4f}"),
        _figure(result.loss, "{:.4f}"),
        _figure(result.samples_seen, "{:,}"),
        _figure(result.world_size, "{}"),
        "-" if seconds is None else duration(seconds),
        str(len(result.attempts or ()) + 1),
        "-" if completed is None else f"{_utc(completed):%Y-%m-%d %H:%M}",
    ]


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _style(outcome: Outcome) -> str:
    if outcome.state in {"running", "interrupted", "no result"}:
        return "dim"
    return "green" if outcome.gate == "passed" else "red"


def _story(outcome: Outcome) -> str:
    """Return what a row can't hold; empty for a job that has no more to report."""
    if outcome.result is None or outcome.note:
        return f"job {outcome.job}: {outcome.state}; {outcome.note}"
    if outcome.state != "Succeeded":
        return explain(outcome.job, outcome.result)
    if outcome.missed:
        missed = "; ".join(outcome.missed)
        return (
            f"job {outcome.job} succeeded, but missed: {missed}\n"
            "what to do: change its settings or the limit, then run `make up` again"
        )
    if outcome.gate == "not judged":
        return f"job {outcome.job} succeeded; `make up` checks its limits"
    return ""


def _files(outcome: Outcome) -> str:
    """Return where the files of a job's last run are; empty where it left none."""
    result = outcome.result
    if result is None or "artifacts.json" not in result.files:
        return ""
    url = result.files["artifacts.json"]["url"].rpartition("/")[0]
    volume = f" (volume {KEPT_CLAIM})" if url.startswith(f"file://{KEPT_DIRECTORY}/") else ""
    return f"files: in {url}{volume}"


def _document(outcome: Outcome) -> str:
    """Return all that is known of one job, with what its story holds in the story alone."""
    document, story = outcome.document, _story(outcome)
    for key in _IN_STORY:
        ((document["result"] or {}).get("failure") or {}).pop(key, None)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_PIPE_WIDTH)
    return f"{text}\n{story}" if story else text.rstrip("\n")
