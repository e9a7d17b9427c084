"""`make results JOB=…`: how each job has ended last, whatever has become of its cluster."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import yaml
from rich import box
from rich.table import Table

from core.manifests import KEPT_CLAIM, KEPT_DIRECTORY
from core.wording import as_typed
from jobs.api.lines import moment
from jobs.observe.progress import duration
from jobs.records import archive
from jobs.result import RUNNING, RunResult, explain
from jobs.run.gate import LIMITS, Miss, advice, limits, missed
from scripts.cli.backend import exists, locks
from scripts.cli.config import jobs_of, load_settings, require_job, without_runs
from scripts.cli.state import JobState, StackState, read_state
from scripts.cli.terminal import CommandError, console, echo

if TYPE_CHECKING:  # It takes a second to import.
    from jobs.model.job import TrainingJob

Format = Literal["text", "json"]
Verdict = Literal["passed", "missed", "not judged", ""]

_FORMATS = {"accuracy": ".4f", "loss": ".4f", "samples_seen": ",", "world_size": "d"}
_FIGURES = ("accuracy", "loss", "samples", "ranks", "took", "attempts")
_COLUMNS = ("job", "state", "gate", *_FIGURES, "ended (UTC)")
_WIDTH = 10_000  # of YAML's lines: none is folded
_IN_STORY = frozenset({"log", "previous_log", "events", "advice"})


@dataclass(frozen=True)
class Outcome:
    """How a job has ended last, or where it is."""

    job: str
    state: str  # its result's, or `running`, `interrupted` or `no result`
    result: RunResult | None = None
    gate: Verdict = ""  # empty for one that did not succeed, or has no limits
    gated: Mapping[str, float | None] = field(default_factory=dict)  # what its `require` judges
    missed: tuple[Miss, ...] = ()  # each limit that it missed, and by how much
    note: str = ""  # why it has no result, or what becomes of it

    @property
    def is_fine(self) -> bool:
        return self.state == "Succeeded" and self.gate in {"passed", ""}

    @property
    def document(self) -> dict[str, Any]:
        """The same for programs to read; empty values are left out."""
        missed = [each.text for each in self.missed]
        details = {"gate": self.gate, "missed": missed, "note": self.note}
        kept = {key: value for key, value in details.items() if value}
        # In the order in which a state has its keys.
        text = json.dumps(self.result and self.result.as_map(), sort_keys=True)
        return {"state": self.state, **kept, "result": json.loads(text)}


def outcomes(
    state: StackState,
    jobs: Sequence["TrainingJob"],
    *,
    is_busy: bool,
    left: Callable[[str], str] = lambda _: "",
) -> dict[str, Outcome]:
    """Return how each job has ended, by name, in the order in which they are declared.

    `jobs` are those in the stack's file, if it can be read; `left` returns what became of a run
    that was not waited for.
    """
    declared = {job.name: job for job in jobs}
    reasons = {} if is_busy else _not_run(jobs, state)
    found = {}
    for name in dict.fromkeys([*declared, *state.jobs]):
        known = state.jobs.get(name)
        if known is not None and known.result is not None:
            # An operation may be pending all the same: of an interrupted run that was taken up.
            found[name] = _ended(known, known.result, declared.get(name))
            if jobs and name not in declared:
                gone = "it is no longer in the stack's file, and the next `make up` removes it"
                found[name] = replace(found[name], note=gone)
        elif not is_busy and (note := left(name)):
            found[name] = Outcome(name, "interrupted", note=note)
        elif known is None or known.operation is None:
            waits = "`make up` trains it, or waits for its run where one is still going on"
            note = "it has not started yet" if is_busy else reasons.get(name, waits)
            found[name] = Outcome(name, "no result", note=note)
        elif is_busy:
            found[name] = Outcome(name, "running", note="`make logs` follows it")
        else:
            note = "the next `make up` continues its run"
            found[name] = Outcome(name, "interrupted", note=note)
    return found


def _left(stack: str, job: str) -> str:
    """Return what became of a run that this machine did not wait for; empty where there is none."""
    runs = archive.of_job(stack, job).runs()
    if not runs:
        return ""
    ends = [each for each in archive.entries(runs[-1].timeline) if each["kind"] == "end"]
    if ends and ends[-1]["about"] == archive.INTERRUPTED:
        return ends[-1]["text"]
    return "its run goes on in the cluster, or has ended there: the next `make up` has its result"


def _ended(job: JobState, result: RunResult, declared: "TrainingJob | None") -> Outcome:
    bounds = job.gate if declared is None or job.passed else limits(declared)
    known = {} if bounds is None else {name: bounds.get(name) for name in LIMITS}
    figures = {name: result.figure(name) for name in known.get("require") or ()}
    if result.state == RUNNING:
        note = f"its waiter in the cluster waits for it; `make wait JOB={job.name}` follows it"
        return Outcome(job.name, "running", result, note=note)
    outcome = Outcome(job.name, result.state, result, gated=figures)
    if not result.succeeded or (bounds is not None and not any(known.values())):
        return outcome
    if job.passed:
        return replace(outcome, gate="passed")
    misses = () if declared is None else tuple(missed(limits(declared), result))
    return replace(outcome, gate="missed" if misses else "not judged", missed=misses)


def _not_run(jobs: Sequence["TrainingJob"], state: StackState) -> dict[str, str]:
    """Return why jobs did not run that needed others."""
    if not jobs:
        return {}
    from jobs.plan import not_run  # noqa: PLC0415 - it takes a second

    ended: dict[str, str | None] = {job.name: None for job in jobs}
    ended |= {name: job.result.state for name, job in state.jobs.items() if job.result}
    passed = {name: name in state.jobs and state.jobs[name].passed for name in ended}
    return not_run(jobs, ended, passed)


def show(stack: str, job: str, format: Format) -> int:  # noqa: A002 - as the command line calls it
    """Print the results of a stack's jobs, or of one job all that is known; exits with 0."""
    if not exists(stack):
        raise CommandError(
            f"Stack {stack} is not up, and `make down` keeps no results. `make up STACK={stack}` "
            "creates it and trains its jobs."
        )
    found, skipped = _read(stack)
    print_results(stack, found, skipped, job, format)
    return 0


def summarize(stack: str, code: int, *jobs: str) -> int:
    """Print a row for each of a stack's jobs, or of some; return `code`, or 1 where one has failed.

    Pulumi, whose status that is, has told the story of what it saw. Nothing without results.
    """
    found, _ = _read(stack)
    found = {name: found[name] for name in jobs or found}
    if not any(each.result for each in found.values()):
        return code
    _print_table(found)
    ended = [each for each in found.values() if each.result and each.state != "running"]
    failed = [each for each in ended if each.state != "Succeeded" or each.missed]
    for outcome in failed if code == 0 else ():
        echo(f"\n{_story(outcome)}\n")
    for name in (name for name, each in found.items() if each.state == "running"):
        echo(f"{name} goes on in the cluster: `make wait JOB={name} STACK={stack}` follows it")
    if not all(each.is_fine for each in found.values()):
        echo(f"All about one job: `make results JOB=… STACK={stack}`")
    return code or int(bool(failed))


def _read(stack: str) -> tuple[dict[str, Outcome], Mapping[str, str]]:
    """Return how each job has ended, and which entries of the catalogue are skipped, and why."""
    state = read_state(stack)
    passed = {name for name, job in state.jobs.items() if job.passed}
    # The limits that were missed, and why a job did not run. It takes a second.
    settings = None if passed == state.jobs.keys() == {*jobs_of(stack)} else load_settings(stack)
    declared = () if settings is None else settings.jobs
    found = outcomes(state, declared, is_busy=bool(locks(stack)), left=partial(_left, stack))
    return found, state.skipped if settings is None else settings.skipped


def print_results(
    stack: str, found: Mapping[str, Outcome], skipped: Mapping[str, str], job: str, form: Format
) -> None:
    """See `show`; of outcomes that are known."""
    if job:
        require_job(stack, job, found)
    if all(each.state == "no result" for each in found.values()):
        raise without_runs(stack)
    if form == "json":
        jobs = {name: each.document for name, each in found.items()}
        print(json.dumps(jobs[job] if job else {"jobs": jobs, "skipped": dict(skipped)}, indent=2))
    elif job:
        print(as_typed(_document(found[job])))
        if left := _files(found[job]):
            print(
                as_typed(f"\n{left}; `make fetch JOB={job} STACK={stack}` copies and checks them")
            )
        if (result := found[job].result) is not None and result.tracking is not None:
            print(as_typed(f"\nits page on the tracking server: `make ui JOB={job} STACK={stack}`"))
    else:
        _print_table(found)
        if any(map(_files, found.values())):
            print(as_typed(f"\nfiles that a job left: `make fetch JOB=… STACK={stack}`"))
        for text in filter(None, map(_story, found.values())):
            print(as_typed(f"\n{text}"))
        if skipped:
            lines = (f"\n  {name}: {reason}" for name, reason in skipped.items())
            print(f"\njobs of the catalogue that this cluster can't run:{''.join(lines)}")


def _print_table(found: Mapping[str, Outcome]) -> None:
    out = console()
    style = box.SIMPLE_HEAD if out.is_terminal else None
    table = Table(box=style, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    names = dict.fromkeys(name for each in found.values() for name in each.gated)
    shown = [name for name in names if name not in _FIGURES]
    numbers = {*_FIGURES, *shown}
    # Narrow terminals break a cell into lines; nothing is cut off.
    for name in (*_COLUMNS, *shown):
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for outcome in found.values():
        gated = (outcome.gated.get(name) for name in shown)
        cells = [
            *map(as_typed, _cells(outcome)),
            *("-" if each is None else f"{each:.6g}" for each in gated),
        ]
        table.add_row(*cells, style=_style(outcome) if out.is_terminal else None)
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


def _style(outcome: Outcome) -> str:
    if outcome.state in {"running", "interrupted", "no result"}:
        return "dim"
    return "green" if outcome.is_fine else "red"


def _story(outcome: Outcome) -> str:
    """Return what a row can't hold; empty for a job that has no more to report."""
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
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return f"{text}\n{story}" if story else text.rstrip("\n")
