"""How a stack's jobs have ended, from its state. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from jobs.result import RunResult
from jobs.run.gate import limits, missed
from scripts.cli.state import JobState, StackState

if TYPE_CHECKING:  # It takes a second to import.
    from jobs.model.job import TrainingJob

Verdict = Literal["passed", "missed", "not judged", ""]


@dataclass(frozen=True)
class Outcome:
    """How a job has ended last, or where it is."""

    job: str
    state: str  # its result's, or `running`, `interrupted` or `no result`
    result: RunResult | None = None
    gate: Verdict = ""  # empty for one that did not succeed
    missed: tuple[str, ...] = ()  # each limit that it missed, and by how much
    note: str = ""  # why it has no result, or what becomes of it

    @property
    def document(self) -> dict[str, Any]:
        """The same for programs to read; empty values are left out."""
        details = {"gate": self.gate, "missed": list(self.missed), "note": self.note}
        kept = {key: value for key, value in details.items() if value}
        result = None if self.result is None else _sorted(self.result.as_map())
        return {"state": self.state, **kept, "result": result}


def outcomes(
    state: StackState, jobs: Sequence[TrainingJob], *, is_busy: bool
) -> dict[str, Outcome]:
    """Return how each job has ended, by name, in the order in which they are declared.

    `jobs` are those in the stack's file, as far as they can be read: they have the gates' limits.
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
            continue
        if known is not None and known.operation is not None and is_busy:
            reached, note = "running", "`make logs` follows it"
        elif known is not None and known.operation is not None:
            reached, note = "interrupted", "the next `make up` continues its run"
        elif is_busy:
            reached, note = "no result", "it has not started yet"
        else:
            waits = "`make up` trains it, or waits for its run where one is still going on"
            reached, note = "no result", reasons.get(name, waits)
        found[name] = Outcome(name, reached, note=note)
    return found


def _ended(job: JobState, result: RunResult, declared: TrainingJob | None) -> Outcome:
    if not result.succeeded:
        return Outcome(job.name, result.state, result)
    if job.passed:
        return Outcome(job.name, result.state, result, "passed")
    judged = {} if declared is None else limits(declared)
    misses = tuple(missed(judged, result))
    return Outcome(job.name, result.state, result, "missed" if misses else "not judged", misses)


def _sorted(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with its keys in the order in which a state has them."""
    return {
        key: _sorted(each) if isinstance(each, Mapping) else each
        for key, each in sorted(result.items())
    }


def _not_run(jobs: Sequence[TrainingJob], state: StackState) -> dict[str, str]:
    """Return why jobs did not run that needed others."""
    if not jobs:
        return {}
    from jobs.plan import not_run  # noqa: PLC0415 - it takes a second

    ended: dict[str, str | None] = {job.name: None for job in jobs}
    ended |= {name: job.result.state for name, job in state.jobs.items() if job.result}
    passed = {name: name in state.jobs and state.jobs[name].passed for name in ended}
    return not_run(jobs, ended, passed)
