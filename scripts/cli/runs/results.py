"""`make results JOB=…`: print each job's last result, even if the cluster is gone."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import yaml
from rich import box
from rich.table import Table

from core.manifests import KEPT_CLAIM, KEPT_DIRECTORY
from core.problem import raised
from core.wording import as_typed
from jobs.api.lines import moment
from jobs.observe.progress import duration
from jobs.records import archive
from jobs.result import RUNNING, RunResult, explain
from jobs.run.gate import LIMITS, Miss, advice, limits, missed
from scripts.cli.backend import exists, locks
from scripts.cli.config import jobs_of, load_settings, require_job, without_runs
from scripts.cli.recovery import require_stale
from scripts.cli.state import JobState, StackState, read_state
from scripts.cli.terminal import CommandError, console, echo

if TYPE_CHECKING:  # it takes a second to import
    from jobs.model.job import TrainingJob

Format = Literal["text", "json"]
Verdict = Literal["passed", "missed", "not judged", ""]

_FORMATS = {"accuracy": ".4f", "loss": ".4f", "samples_seen": ",", "world_size": "d"}
_FIGURES = ("accuracy", "loss", "samples", "ranks", "took", "attempts")
_COLUMNS = ("job", "state", "gate", *_FIGURES, "ended (UTC)")
_WIDTH = 10_000  # line width for YAML, so that no line is folded
_IN_STORY = frozenset({"log", "previous_log", "events", "advice"})


@dataclass(frozen=True)
class Outcome:
    """A job's last result, or its current state."""

    job: str
    state: str  # from its result; or `running`, `interrupted`, `no result`
    result: RunResult | None = None
    gate: Verdict = ""  # empty if it did not succeed or has no limits
    gated: Collection[str] = ()  # the metrics in its `require`
    missed: tuple[Miss, ...] = ()  # the limits that it missed, and by how much
    note: str = ""  # why there is no result, or the next step

    @property
    def is_fine(self) -> bool:
        return self.state == "Succeeded" and self.gate in {"passed", ""}

    @property
    def document(self) -> dict[str, Any]:
        """The outcome in machine-readable form, without empty values."""
        missed = [each.text for each in self.missed]
        details = {"gate": self.gate, "missed": missed, "note": self.note}
        kept = {key: value for key, value in details.items() if value}
        # Sorted, like the keys in a state.
        text = json.dumps(self.result and self.result.as_map(), sort_keys=True)
        return {"state": self.state, **kept, "result": json.loads(text)}


def outcomes(stack: str, state: StackState, jobs: Sequence["TrainingJob"]) -> dict[str, Outcome]:
    """Return each job's outcome, keyed by name, in the order of declaration.

    `jobs` are those in the stack's file, if it can be read.
    """
    held = locks(stack).values()  # by commands that are changing the stack, or were killed
    is_busy = any(raised(partial(require_stale, lock, stack), CommandError) for lock in held)
    declared, results = {job.name: job for job in jobs}, dict[str, Outcome]()
    reasons: dict[str, str] = {}
    if jobs and not is_busy:
        from jobs.plan import not_run  # noqa: PLC0415 - it takes a second

        ended: dict[str, str | None] = dict.fromkeys(declared)
        ended |= {name: job.result.state for name, job in state.jobs.items() if job.result}
        passed = {name: name in state.jobs and state.jobs[name].passed for name in ended}
        reasons = not_run(jobs, ended, passed)
    for name in dict.fromkeys([*declared, *state.jobs]):
        job_state = state.jobs.get(name)
        if job_state is not None and job_state.result is not None:
            # An interrupted run that was later continued may have left a pending operation.
            results[name] = _ended(job_state, job_state.result, declared.get(name))
            if jobs and name not in declared:
                removed = "the job is no longer in the stack's file; the next `make up` removes it"
                results[name] = replace(results[name], note=removed)
        elif not is_busy and (note := _left(stack, name)):
            results[name] = Outcome(name, "interrupted", note=note)
        elif job_state is None or job_state.operation is None:
            waits = "`make up` runs it, or waits for its run if one is in progress"
            note = "its run has not started yet" if is_busy else reasons.get(name, waits)
            results[name] = Outcome(name, "no result", note=note)
        else:
            note = "`make logs` follows it" if is_busy else "the next `make up` continues its run"
            results[name] = Outcome(name, "running" if is_busy else "interrupted", note=note)
    return results


def _left(stack: str, job: str) -> str:
    """Return a note about a run that this machine stopped waiting for, or "" if there is none."""
    if not (runs := archive.of_job(stack, job).runs()):
        return ""
    ends = [each for each in archive.entries(runs[-1].timeline) if each["kind"] == "end"]
    if ends and ends[-1]["about"] == archive.INTERRUPTED:
        return ends[-1]["text"]
    return "its run is in progress or finished in the cluster; the next `make up` gets the result"


def _ended(job: JobState, result: RunResult, declared: "TrainingJob | None") -> Outcome:
    bounds = (job.gate if declared is None or job.passed else limits(declared)) or {}
    if result.state == RUNNING:
        note = f"a pod in the cluster is waiting for its run; `make wait JOB={job.name}` follows it"
        return Outcome(job.name, "running", result, note=note)
    outcome = Outcome(job.name, result.state, result, gated=bounds.get("require") or ())
    if not result.succeeded or (bounds and not any(map(bounds.get, LIMITS))):
        return outcome
    if job.passed:
        return replace(outcome, gate="passed")
    misses = tuple(missed(bounds, result))
    return replace(outcome, gate="missed" if misses else "not judged", missed=misses)


def show(stack: str, job: str, format: Format) -> int:  # noqa: A002 - as the command line calls it
    """Print the results of all jobs in a stack, or all details about `job`; return 0."""
    if not exists(stack):
        raise CommandError(
            f"Stack {stack} is not up, so it has no results (`make down` removes results). "
            f"`make up STACK={stack}` creates the stack and runs its jobs."
        )
    results, skipped = _read(stack)
    print_results(stack, results, skipped, job, format)
    return 0


def summarize(stack: str, code: int, *jobs: str) -> int:
    """Print a row for each job in a stack, or each of `jobs`, and explain failures.

    Returns `code`, Pulumi's exit status, or 1 if `code` is 0 but a job failed. If `code` is not 0,
    Pulumi has already explained the failures. If there are no results, nothing is printed.
    """
    results, _ = _read(stack)
    results = {name: results[name] for name in jobs or results}
    if not any(each.result for each in results.values()):
        return code
    _print_table(results)
    ended = [each for each in results.values() if each.result and each.state != "running"]
    failed = [each for each in ended if each.state != "Succeeded" or each.missed]
    for outcome in failed if code == 0 else ():
        echo(f"\n{_story(outcome)}\n")
    for name in (name for name, each in results.items() if each.state == "running"):
        echo(f"{name} continues in the cluster: `make wait JOB={name} STACK={stack}` follows it")
    if not all(each.is_fine for each in results.values()):
        echo(f"Details about a job: `make results JOB=… STACK={stack}`")
    return code or int(bool(failed))


def _read(stack: str) -> tuple[dict[str, Outcome], Mapping[str, str]]:
    """Return each job's outcome, and the reasons why jobs in the catalogue were skipped."""
    state = read_state(stack)
    passed = {name for name, job in state.jobs.items() if job.passed}
    # Slow, and needed only if a limit was missed or a job did not run.
    settings = None if passed == state.jobs.keys() == {*jobs_of(stack)} else load_settings(stack)
    declared = () if settings is None else settings.jobs
    results = outcomes(stack, state, declared)
    return results, state.skipped if settings is None else settings.skipped


def print_results(
    stack: str, results: Mapping[str, Outcome], skipped: Mapping[str, str], job: str, form: Format
) -> None:
    """Print all outcomes, or only that of `job`, as text or JSON."""
    if job:
        require_job(stack, job, results)
    if (results or not skipped) and all(each.state == "no result" for each in results.values()):
        raise without_runs(stack)
    if form == "json":
        jobs = {name: each.document for name, each in results.items()}
        print(json.dumps(jobs[job] if job else {"jobs": jobs, "skipped": dict(skipped)}, indent=2))
    elif job:
        print(as_typed(_document(results[job])))
        if own := _files(results[job]):
            print(as_typed(f"\n{own}; `make fetch JOB={job} STACK={stack}` copies and checks them"))
        if (result := results[job].result) is not None and result.tracking is not None:
            print(as_typed(f"\nthe run on the tracking server: `make ui JOB={job} STACK={stack}`"))
    else:
        _print_table(results)
        if any(map(_files, results.values())):
            print(as_typed(f"\nto copy a job's files: `make fetch JOB=… STACK={stack}`"))
        for text in filter(None, map(_story, results.values())):
            print(as_typed(f"\n{text}"))
        if skipped:
            lines = (f"\n  {name}: {reason}" for name, reason in skipped.items())
            print(f"\njobs in the catalogue that this cluster can't run:{''.join(lines)}")


def _print_table(results: Mapping[str, Outcome]) -> None:
    out = console()
    frame = box.SIMPLE_HEAD if out.is_terminal else None
    table = Table(box=frame, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    gated = [name for each in results.values() for name in each.gated]
    reported = [each.result.metrics or () for each in results.values() if each.result is not None]
    own = dict.fromkeys(name for metrics in reported for name in metrics)
    names = dict.fromkeys([*gated, *[*own][:4]])  # the table would become too wide with all
    shown = [name for name in names if name not in _FIGURES]
    numbers = {*_FIGURES, *shown}
    # On narrow terminals cells wrap; nothing is cut off.
    for name in (*_COLUMNS, *shown):
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for outcome in results.values():
        values = [outcome.result and outcome.result.figure(name) for name in shown]
        figures = ("-" if each is None else f"{each:.6g}" for each in values)
        is_open = outcome.state in {"running", "interrupted", "no result"}
        style = "dim" if is_open else "green" if outcome.is_fine else "red"
        cells = map(as_typed, _cells(outcome))
        table.add_row(*cells, *figures, style=style if out.is_terminal else None)
    out.print(table)


def _cells(outcome: Outcome) -> list[str]:
    first = [outcome.job, outcome.state, outcome.gate or "-"]
    if (result := outcome.result) is None:
        return first + ["-"] * (len(_COLUMNS) - len(first))
    seconds, completed = result.duration_seconds, result.completed
    figures = ((getattr(result, name), form) for name, form in _FORMATS.items())
    return [
        *first,
        *("-" if value is None else format(value, form) for value, form in figures),
        "-" if seconds is None else duration(seconds),
        str(len(result.attempts or ()) + 1),
        "-" if completed is None else f"{moment(completed).astimezone(UTC):%Y-%m-%d %H:%M}",
    ]


def _story(outcome: Outcome) -> str:
    """Return an outcome's details that don't fit in a table row, or "" if there are none."""
    if outcome.result is None or outcome.note:
        return f"job {outcome.job}: {outcome.state}; {outcome.note}"
    if outcome.state != "Succeeded":
        return explain(outcome.job, outcome.result)
    if outcome.missed:
        missed = "; ".join(each.text for each in outcome.missed)
        return (
            f"job {outcome.job} succeeded, but missed: {missed}\n"
            f"what to do: {advice(outcome.missed)}, then run `make up` again"
        )
    if outcome.gate == "not judged":
        return f"job {outcome.job} succeeded; `make up` checks its limits"
    return ""


def _files(outcome: Outcome) -> str:
    """Return the location of the files from a job's last run, or "" if there are none."""
    result = outcome.result
    if result is None or "artifacts.json" not in result.files:
        return ""
    url = result.files["artifacts.json"]["url"].rpartition("/")[0]
    volume = f" (volume {KEPT_CLAIM})" if url.startswith(f"file://{KEPT_DIRECTORY}/") else ""
    return f"files: in {url}{volume}"


def _document(outcome: Outcome) -> str:
    """Return all details about a job: first as YAML, then as prose those that the YAML omits."""
    document, story = outcome.document, _story(outcome)
    for key in _IN_STORY:
        ((document["result"] or {}).get("failure") or {}).pop(key, None)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return f"{text}\n{story}" if story else text.rstrip("\n")
